package requests

import (
	"encoding/json"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// The parts of a launch are those of a submitted file.
type (
	// Duration is a time.Duration with a JSON text: "1m30s".
	Duration = types.Duration
	// Task is a task to launch.
	Task = manifest.Task
	// Alternative is one of several vectors of requests.
	Alternative = manifest.Alternative
	// Provide is a resource that a task provides to its node.
	Provide = manifest.Provide
	// Spec is what to run.
	Spec = manifest.Spec
	// Where selects the places of a resource; the zero value means every node.
	Where = manifest.Where
)

// Set is a request to set a resource.
type Set struct {
	Name string `json:"name"`
	// Capacity is an amount as text: "1", "500m", "inf"; "0" removes it.
	Capacity string `json:"capacity"`
	// Where is the place; nil means the node of the task.
	Where *Where `json:"where,omitempty"`
	// Declare keeps a resource of capacity 0.
	Declare bool `json:"declare,omitempty"`
	// Lifetime is "", "task", "job", "session", "reservation" or "policy". Owner is the object that
	// it ends with; "" means this task for "task", and its job for "job".
	Lifetime types.Lifetime `json:"lifetime,omitempty"`
	Owner    string         `json:"owner,omitempty"`
	// Future allows labels that no node has yet.
	Future bool `json:"future,omitempty"`
}

// Job names the job of tasks that belong together.
type Job struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
	// Labels are those of the job, and of its tasks unless they have their own value.
	Labels map[string]string `json:"labels,omitempty"`
	// Policies apply to its tasks.
	Policies []Policy `json:"policies,omitempty"`
}

// Policy is a policy by its kind, with its parameters as a JSON object.
type Policy struct {
	Name string          `json:"name"`
	With json.RawMessage `json:"with,omitempty"`
}

// Launch is a request to launch tasks; several become a job.
type Launch struct {
	Job   *Job   `json:"job,omitempty"`
	Tasks []Task `json:"tasks"`
	// Array are the places of the tasks in their array, one for each; none means that they are no array.
	Array []Place `json:"array,omitempty"`
}

// Place is the place of a task in an array of so many tasks.
type Place struct {
	Index int `json:"index"`
	Count int `json:"count"`
}

// Launched has the ids of launched tasks, in the order of the request.
type Launched struct {
	Tasks    []string `json:"tasks"`
	Job      string   `json:"job,omitempty"`
	Revision int64    `json:"revision,omitempty"`
}

// Reserve is a request for a reservation.
type Reserve struct {
	ID         string         `json:"id"`
	Bundles    []types.Bundle `json:"bundles"`
	Priority   int            `json:"priority,omitempty"`
	Session    string         `json:"session,omitempty"`
	Accumulate bool           `json:"accumulate,omitempty"`
	// Lost is what happens to a bundle on a lost or drained node: wait, the default, or move.
	Lost types.LostBundles `json:"lost,omitempty"`
	// Job is the id of the job that it ends with.
	Job string `json:"job,omitempty"`
}

// Stop is a request to end a task.
type Stop struct {
	Reason string   `json:"reason,omitempty"`
	Grace  Duration `json:"grace,omitempty"`
}

// Evict is a request to end an attempt; 0 means the current one.
type Evict struct {
	Attempt int `json:"attempt,omitempty"`
}

// Transaction is several changes made together, if nothing in If has changed.
type Transaction struct {
	If        controlplane.ReadSet `json:"if,omitempty"`
	Set       []Set                `json:"set,omitempty"`
	Launch    []Launch             `json:"launch,omitempty"`
	Reserve   []Reserve            `json:"reserve,omitempty"`
	Unreserve []string             `json:"unreserve,omitempty"`
}

// Committed is the result of a change.
type Committed struct {
	Revision int64      `json:"revision,omitempty"`
	Launched []Launched `json:"launched,omitempty"`
}

// State is the state of the cluster visible to the namespace. Reads is set on request: use it, or a
// part of it, as Transaction.If.
type State struct {
	cluster.State
	Reads controlplane.ReadSet `json:"reads,omitempty"`
}

// Status is the status of a task.
type Status struct {
	ID string `json:"id"`
	// Revision is that of the change, in events of a watch alone. It and ID name the change.
	Revision int64       `json:"revision,omitempty"`
	Name     string      `json:"name,omitempty"`
	Phase    types.Phase `json:"phase"`
	// Labels are those of the task, with those of its job.
	Labels map[string]string `json:"labels,omitempty"`
	// Node and the fields below are of the current or last attempt.
	Node     string     `json:"node,omitempty"`
	Attempt  int        `json:"attempt,omitempty"`
	Bound    *time.Time `json:"bound,omitempty"`
	Started  *time.Time `json:"started,omitempty"`
	Ended    *time.Time `json:"ended,omitempty"`
	ExitCode int        `json:"exitCode"`
	Reason   string     `json:"reason,omitempty"`
	// Image is the image by digest, Restarts the number of restarts of this attempt's process.
	Image    string `json:"image,omitempty"`
	Restarts int    `json:"restarts,omitempty"`
	// Failures is the number of failed attempts. Retry is when a task that waits after a failure
	// may be bound again.
	Failures int        `json:"failures,omitempty"`
	Retry    *time.Time `json:"retry,omitempty"`
	// Health is the result of the checks: starting, healthy or unhealthy; "" without checks.
	Health types.Health `json:"health,omitempty"`
}

// Tasks are all tasks of the namespace, by id. They have the revision of the first page.
type Tasks struct {
	Revision int64    `json:"revision"`
	Tasks    []Status `json:"tasks"`
}

// Waited are the tasks that reached the requested state, by id; Complete reports whether all have.
type Waited struct {
	Complete bool     `json:"complete"`
	Tasks    []Status `json:"tasks"`
}
