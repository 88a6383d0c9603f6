package tasksocket

import (
	"encoding/json"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Duration is a time.Duration that is JSON as text: "1m30s".
type Duration time.Duration

// MarshalJSON writes it as text.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads it as time.ParseDuration does.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return types.Errorf(types.Invalid, "%s is no duration: write it as text, such as \"30s\"", text)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return types.Errorf(types.Invalid, "%q is no duration: write it such as \"1m30s\"", s)
	}
	*d = Duration(v)
	return nil
}

// Set asks for a resource to be set.
type Set struct {
	Name string `json:"name"`
	// Capacity is an amount as text: "1", "500m", "inf"; "0" removes it.
	Capacity string `json:"capacity"`
	// Where is nil for the node that the task runs on.
	Where *Where `json:"where,omitempty"`
	// Declare keeps a resource of capacity 0.
	Declare bool `json:"declare,omitempty"`
	// Lifetime is empty, "task", "session" or "reservation"; Owner is whose, and
	// for "task" this task if it is empty.
	Lifetime types.Lifetime `json:"lifetime,omitempty"`
	Owner    string         `json:"owner,omitempty"`
	// Future allows labels that no node has yet.
	Future bool `json:"future,omitempty"`
}

// Where says where a resource is to be; the empty one is every node.
type Where struct {
	Nodes  []string          `json:"nodes,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// Available picks the nodes where that is free, once.
	Available types.Requests `json:"available,omitempty"`
	// Cluster is one pool for the whole cluster.
	Cluster bool `json:"cluster,omitempty"`
}

// Task is a task to be launched.
type Task struct {
	// ID is unique for ever; empty: made from Name.
	ID           string         `json:"id,omitempty"`
	Name         string         `json:"name,omitempty"`
	Requests     types.Requests `json:"requests,omitempty"`
	Alternatives []Alternative  `json:"alternatives,omitempty"`
	Provides     []Provide      `json:"provides,omitempty"`
	Spec         Spec           `json:"spec"`
	Priority     int            `json:"priority,omitempty"`
	Scheduler    string         `json:"scheduler,omitempty"`
	OnLoss       types.OnLoss   `json:"onLoss,omitempty"`
	MaxRun       Duration       `json:"maxRun,omitempty"`
	Session      string         `json:"session,omitempty"`
}

// Alternative is one of several vectors of requests.
type Alternative struct {
	Requests types.Requests `json:"requests"`
	After    Duration       `json:"after,omitempty"`
}

// Provide is a resource that a task gives to its node.
type Provide struct {
	Name   string     `json:"name"`
	Amount string     `json:"amount"`
	When   types.When `json:"when"`
}

// Spec is what to run.
type Spec struct {
	Image   string   `json:"image"`
	Command []string `json:"command,omitempty"`
	Env     []string `json:"env,omitempty"`
	Dir     string   `json:"dir,omitempty"`
	User    string   `json:"user,omitempty"`
	Grace   Duration `json:"grace,omitempty"`
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
