package access

import (
	"context"
	"net/http"
	"slices"

	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// OfTask returns the identity of a task that sends a request by its socket. Its rights are in its namespace
// alone, and no administrator gives them.
func OfTask(c tasksocket.Caller) Identity {
	return Identity{Subject: "task:" + c.Namespace + "/" + c.Task, Task: &c}
}

// Acquire acquires what a request uses of the bounds of the agent, if a task sends it; release releases it.
// Unavailable: others use everything for too long.
func Acquire(ctx context.Context, what tasksocket.Bound) (release func(), err error) {
	if t := From(ctx).Task; t != nil && t.Use != nil {
		return t.Use(ctx, what)
	}
	return func() {}, nil
}

// ofTasks reports whether tasks have a right in their namespace.
func ofTasks(n rights.Need) bool {
	kinds := []rights.Kind{rights.Tasks, rights.Jobs, rights.Resources, rights.Reservations, rights.Policies}
	return n == rights.Need{Verb: rights.Read, Kind: rights.State} || n.Verb != rights.Enter && slices.Contains(kinds, n.Kind)
}

// Permits returns nil if an identity may send a request for the operation. Only tasks are restricted: their
// sockets serve some operations, and with SocketSelf only those about the task itself. Denied: it may not.
func (r Row) Permits(id Identity, req *http.Request) error {
	t := id.Task
	switch {
	case t == nil || r.Tasks && !t.Own:
		return nil
	case !r.Tasks:
		return types.Errorf(types.Denied, "%s: the socket of a task does not serve it: ask a server, with a token", r.Operation)
	case !r.Itself:
		return errItself(r.Operation)
	}
	return itself(t, req, r.NamesTask)
}

// itself returns nil if a request concerns the task alone; with named, it must name it.
func itself(t *tasksocket.Caller, req *http.Request, named bool) error {
	query := req.URL.Query()
	if of := query.Get("of"); of != "" && of != "tasks" {
		return errItself("watch of " + types.Cut(of, types.MaxName))
	}
	ids := query["id"]
	if id := req.PathValue("id"); id != "" {
		ids = append(ids, id)
	}
	if named && len(ids) == 0 {
		return errItself("all tasks")
	}
	for _, id := range ids {
		if id != t.Task {
			return errItself("task " + types.Cut(id, types.MaxName))
		}
	}
	return nil
}

func errItself(what string) error {
	return types.Errorf(types.Denied, "%s: this task may ask about itself alone: launch it with socket: namespace", what)
}
