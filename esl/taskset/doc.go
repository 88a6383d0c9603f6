// Package taskset has what families of policies share about tasks: what they ask for, in which
// alternatives, whether they wait or have a place, and where nodes have capacity for them.
package taskset
