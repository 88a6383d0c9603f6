// Package place has the policies that decide where tasks run: a limit per node, rack or zone, or a
// score of nodes.
package place
