// Package taskset has functions about tasks for families of policies: their requests and
// alternatives, whether they wait or have a node, and which nodes have capacity for them.
package taskset
