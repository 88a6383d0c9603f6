package tasksocket

import (
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// The parts of a launch are those of a file that is submitted.
type (
	// Duration is a time.Duration that is JSON as text: "1m30s".
	Duration = types.Duration
	// Task is a task to be launched.
	Task = manifest.Task
	// Alternative is one of several vectors of requests.
	Alternative = manifest.Alternative
	// Provide is a resource that a task gives to its node.
	Provide = manifest.Provide
	// Spec is what to run.
	Spec = manifest.Spec
	// Where says where a resource is to be; the empty one is every node.
	Where = manifest.Where
)

// Set asks for a resource to be set.
type Set struct {
	Name string `json:"name"`
	// Capacity is an amount as text: "1", "500m", "inf"; "0" removes it.
	Capacity string `json:"capacity"`
	// Where is nil for the node that the task runs on.
	Where *Where `json:"where,omitempty"`
	// Declare keeps a resource of capacity 0.
	Declare bool `json:"declare,omitempty"`
	// Lifetime is empty, "task", "job", "session", "reservation" or "policy"; Owner is whose: if it
	// is empty, this task for "task", and its job for "job".
	Lifetime types.Lifetime `json:"lifetime,omitempty"`
	Owner    string         `json:"owner,omitempty"`
	// Future allows labels that no node has yet.
	Future bool `json:"future,omitempty"`
}

// Job says how tasks that belong together are known.
type Job struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
}

// Launch asks for tasks to be launched; several become a job.
type Launch struct {
	Job   *Job   `json:"job,omitempty"`
	Tasks []Task `json:"tasks"`
}

// Launched tells what was launched: the ids, in the order of the tasks.
type Launched struct {
	Tasks    []string `json:"tasks"`
	Job      string   `json:"job,omitempty"`
	Revision int64    `json:"revision,omitempty"`
}

// Reserve asks for bundles to be locked.
type Reserve struct {
	ID         string         `json:"id"`
	Bundles    []types.Bundle `json:"bundles"`
	Priority   int            `json:"priority,omitempty"`
	Session    string         `json:"session,omitempty"`
	Accumulate bool           `json:"accumulate,omitempty"`
	// Lost says what becomes of what is on a node that is lost, or drained: wait, which
	// holds if it is left out, or move.
	Lost types.LostBundles `json:"lost,omitempty"`
	// Job is the id of the job that it ends with.
	Job string `json:"job,omitempty"`
}

// Stop asks for the end of a task.
type Stop struct {
	Reason string   `json:"reason,omitempty"`
	Grace  Duration `json:"grace,omitempty"`
}

// Evict asks for the end of an attempt; 0 is the present one.
type Evict struct {
	Attempt int `json:"attempt,omitempty"`
}

// Transaction is several changes that are made together, on the condition that
// nothing of If has changed.
type Transaction struct {
	If        controlplane.ReadSet `json:"if,omitempty"`
	Set       []Set                `json:"set,omitempty"`
	Launch    []Launch             `json:"launch,omitempty"`
	Reserve   []Reserve            `json:"reserve,omitempty"`
	Unreserve []string             `json:"unreserve,omitempty"`
}

// Committed tells what a change did.
type Committed struct {
	Revision int64      `json:"revision,omitempty"`
	Launched []Launched `json:"launched,omitempty"`
}

// State is what the cluster looks like to the namespace. Reads is there if it was
// asked for: give it, or a part, as Transaction.If.
type State struct {
	cluster.State
	Reads controlplane.ReadSet `json:"reads,omitempty"`
}

// Status is how far a task is.
type Status struct {
	ID    string      `json:"id"`
	Name  string      `json:"name,omitempty"`
	Phase types.Phase `json:"phase"`
	// Node and what follows are of the present or last attempt.
	Node     string     `json:"node,omitempty"`
	Attempt  int        `json:"attempt,omitempty"`
	Bound    *time.Time `json:"bound,omitempty"`
	Started  *time.Time `json:"started,omitempty"`
	Ended    *time.Time `json:"ended,omitempty"`
	ExitCode int        `json:"exitCode"`
	Reason   string     `json:"reason,omitempty"`
	// Image is the image by digest, Restarts how often the process of this attempt
	// was run again.
	Image    string `json:"image,omitempty"`
	Restarts int    `json:"restarts,omitempty"`
	// Failures is how many attempts failed; Retry, of a task that waits because one did,
	// when it may be bound again.
	Failures int        `json:"failures,omitempty"`
	Retry    *time.Time `json:"retry,omitempty"`
	// Health is what the checks of what runs say: starting, healthy or unhealthy; nothing
	// if it has none.
	Health types.Health `json:"health,omitempty"`
}

// Tasks are all tasks of the namespace, by id, at one revision.
type Tasks struct {
	Revision int64    `json:"revision"`
	Tasks    []Status `json:"tasks"`
}

// Waited are the tasks that are as far as was asked for, by id; Complete tells that
// these are all.
type Waited struct {
	Complete bool     `json:"complete"`
	Tasks    []Status `json:"tasks"`
}
