package escher

import (
	"strconv"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/ids"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// The types of files, with the same fields: see docs/jobs.md.
type (
	// Task is a task to run.
	Task = manifest.Task
	// Spec is what a task runs.
	Spec = manifest.Spec
	// Mount makes a directory or file of the node visible in a container.
	Mount = manifest.Mount
	// Port is a port of the node.
	Port = manifest.Port
	// Provide is a resource that a task adds to its node.
	Provide = manifest.Provide
)

// The types of the task socket, with the same fields: see docs/task-api.md.
type (
	// Status is the status of a task.
	Status = requests.Status
	// Self is the task in which a program runs.
	Self = tasksocket.Self
	// Reservation is a set of bundles to lock, all or none.
	Reservation = requests.Reserve
	// Launched has the ids of launched tasks, in the order of the job, and that of the job.
	Launched = requests.Launched
)

type (
	// Requests are amounts of resources, all of them on one node: MustRequests makes them.
	Requests = types.Requests
	// Bundle is a request vector of a reservation, for one node.
	Bundle = types.Bundle
	// Amount is an amount of a resource as text, with the unit of a file: "2", "500m", "4Gi".
	Amount = types.Amount
	// Quantity is an amount as a number: bytes of memory and disk, and thousandths of anything else.
	Quantity = types.Quantity
	// Node is the state of a node.
	Node = cluster.NodeState
	// Amounts are the amounts of a resource at a place.
	Amounts = cluster.Amounts
)

// Inf is an amount without bound.
const Inf Amount = "inf"

// Whole returns n of a resource that is counted.
func Whole(n int) Amount { return Amount(strconv.Itoa(n)) }

// ParseRequests parses amounts: {"cpu": "500m", "memory": "4Gi"}. Invalid: the error names every
// wrong amount.
func ParseRequests(amounts map[string]string) (Requests, error) { return types.MakeRequests(amounts) }

// MustRequests is ParseRequests for amounts written in a program: it panics if one is wrong.
func MustRequests(amounts map[string]string) Requests { return types.MustRequests(amounts) }

// DrawOn returns requests that draw on a reservation, by its id, instead of on what is free.
func DrawOn(reservation string, r Requests) Requests {
	out := make(Requests, len(r))
	for i, x := range r {
		out[i] = types.Request{Name: x.Name + "@" + reservation, Amount: x.Amount}
	}
	return out
}

// NewID returns an id that was never used: the name, and random letters and digits.
func NewID(name string) string { return ids.New(name) }
