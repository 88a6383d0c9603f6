package tasksocket

import (
	"net/http"

	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

// permitted restricts a route to what the mode of the socket permits. SocketSelf does not permit a
// route without own.
func (s *Server) permitted(r route) http.Handler {
	if s.cfg.Mode == types.SocketNamespace {
		return r.serve
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		err := errMode(r.pattern)
		if r.own != nil && s.cfg.Mode == types.SocketSelf {
			err = r.own(s, req)
		}
		if err != nil {
			answer.Refuse(w, err)
			return
		}
		r.serve.ServeHTTP(w, req)
	})
}

func errMode(what string) error {
	return types.Errorf(types.Precondition, "%s: this task may ask about itself alone: launch it with socket: namespace", what)
}

// anything permits every request of a route: the route concerns the task itself, or checks it.
func anything(*Server, *http.Request) error { return nil }

// ownTask permits the task itself, by its full id.
func (s *Server) ownTask(r *http.Request) error {
	if id := r.PathValue("id"); id != s.cfg.Self.Task {
		return errMode("task " + id)
	}
	return nil
}

// ownIDs permits requests that name only the task itself, and concern tasks or its peers.
func (s *Server) ownIDs(r *http.Request) error {
	query := r.URL.Query()
	if query.Get("of") == "peers" {
		return nil // its environment, or a file, has them too
	}
	if of := query.Get("of"); of != "" && of != "tasks" {
		return errMode("watch of " + of)
	}
	ids := query["id"]
	if len(ids) == 0 {
		return errMode("all tasks")
	}
	for _, id := range ids {
		if id != s.cfg.Self.Task {
			return errMode("task " + id)
		}
	}
	return nil
}

// ownSet restricts what a task sets with SocketSelf: on its own node, ending with it, and nothing
// that belongs to another task.
func (s *Server) ownSet(body *Set) error {
	if s.cfg.Mode == types.SocketNamespace {
		return nil
	}
	if body.Where != nil && (len(body.Where.Nodes) != 1 || body.Where.Nodes[0] != s.cfg.Self.Node || body.Where.Cluster || len(body.Where.Labels)+len(body.Where.Available) > 0) {
		return errMode("where")
	}
	if body.Lifetime != types.Forever && body.Lifetime != types.OfTask || body.Owner != "" && body.Owner != s.cfg.Self.Task {
		return errMode("lifetime, owner")
	}
	body.Where = nil // its own node
	body.Lifetime, body.Owner = types.OfTask, s.cfg.Self.Task
	return nil
}
