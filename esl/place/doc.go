// Package place has the policies that decide where tasks run: a limit per node, rack or zone, or a
// score of nodes.
//
// Its engines are in limits.go (how many tasks a domain may have), common.go (on which nodes a
// resource is) and assign.go (the node with the lowest score). A kind chooses the numbers, the nodes
// or the score.
package place
