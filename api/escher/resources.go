package escher

import (
	"context"
	"time"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/types"
)

// ResourceOption is an option of SetResource. The place of a resource, without one, is every node,
// present and future.
type ResourceOption func(*requests.Set)

// OnNodes places it on nodes, each with a capacity of its own.
func OnNodes(names ...string) ResourceOption {
	return place(func(w *requests.Where) { w.Nodes = names })
}

// OnNodesWithLabels places it on every node with these labels, present and future.
func OnNodesWithLabels(labels map[string]string) ResourceOption {
	return place(func(w *requests.Where) { w.Labels = labels })
}

// OnNodesWithFree places it on the nodes that have that much free now.
func OnNodesWithFree(free Requests) ResourceOption {
	return place(func(w *requests.Where) { w.Available = free })
}

// InCluster makes it one pool for the whole cluster.
func InCluster() ResourceOption {
	return place(func(w *requests.Where) { w.Cluster = true })
}

func place(change func(*requests.Where)) ResourceOption {
	return func(s *requests.Set) {
		if s.Where == nil {
			s.Where = &requests.Where{}
		}
		change(s.Where)
	}
}

// OnThisNode places it on the node of the task in which the program runs. Outside of tasks,
// SetResource returns Invalid.
func OnThisNode() ResourceOption { return func(s *requests.Set) { s.Where = nil } }

// EndsWithTask removes it when the task in which the program runs ends. Outside of tasks,
// SetResource returns Invalid.
func EndsWithTask() ResourceOption { return EndsWith(types.OfTask, "") }

// EndsWith removes it with the task, session, reservation, job or policy of an id, which must exist.
// In a task, an empty id means that task, or its job.
func EndsWith(kind types.Lifetime, id string) ResourceOption {
	return func(s *requests.Set) { s.Lifetime, s.Owner = kind, id }
}

// KeptAtZero keeps a resource of capacity 0: it exists, and is closed.
func KeptAtZero() ResourceOption { return func(s *requests.Set) { s.Declare = true } }

// ForFutureNodes allows labels that no node has yet.
func ForFutureNodes() ResourceOption { return func(s *requests.Set) { s.Future = true } }

// SetResource sets the capacity of an ephemeral resource, on every node unless an option places it
// elsewhere. "0" removes it. Invalid: a name, amount or place is wrong, and nothing was changed.
func (c *Client) SetResource(ctx context.Context, name string, capacity Amount, opts ...ResourceOption) error {
	_, err := c.requests.Set(ctx, set(name, capacity, opts))
	return err
}

// set returns the request to set a resource.
func set(name string, capacity Amount, opts []ResourceOption) requests.Set {
	s := requests.Set{Name: name, Capacity: string(capacity), Where: &requests.Where{}}
	for _, opt := range opts {
		opt(&s)
	}
	return s
}

// Reserve locks bundles of resources, all of them or none. It returns before they are granted; tasks
// request them by names such as gpu@<id>.
func (c *Client) Reserve(ctx context.Context, r Reservation) error { return c.requests.Reserve(ctx, r) }

// Unreserve ends a reservation.
func (c *Client) Unreserve(ctx context.Context, id string) error {
	return c.requests.Unreserve(ctx, id)
}

// Hold waits for one unit of a resource of the node of the task in which the program runs, in turn with
// other tasks, and holds it until release, for at most limit; 0 means 10 s. Precondition: the program
// runs outside of tasks, or the resource is closed. NotFound: the node has no such resource.
func (c *Client) Hold(ctx context.Context, name string, limit time.Duration) (release func(), err error) {
	socket, inside := c.requests.(*requests.Client)
	if !inside {
		return nil, types.Errorf(types.Precondition, "hold %s: only tasks hold units: run the program in a task", name)
	}
	return socket.Hold(ctx, name, limit)
}
