package esl

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
)

// Seeking says which nodes matter to a cluster-scoped policy between two calls of Next: see State.Seek.
// The zero value means none.
type Seeking struct {
	// Like is the same text for policies for which Take reports the same on every node.
	Like string
	// Order and Since rank the policy: the highest Order comes first, then the earliest Since.
	Order int
	Since int64
	// Take allocates in a room what the waiting tasks would get there, and reports whether that is
	// anything. It uses nothing of the State. nil means that free capacity does not matter.
	Take func(r *match.Room) bool
	// On are the nodes where the policy has opened capacity that is still free. The policy is called
	// after each change of them. Holds allocates in a room what the waiting tasks may get there by that.
	On    []string
	Holds func(r *match.Room)
	// Alike reports whether all policies of the same Like decide alike about a node. Then one answer
	// holds for all of them until the node changes.
	Alike bool
}

// Promise is free capacity of a node that a policy has opened for tasks of a job that are not bound yet.
type Promise struct {
	// By is the job or shared policy. Order is the rank of its first task.
	By    cluster.ID
	Order int
	// Holds allocates the capacity in a room.
	Holds func(r *match.Room)
}
