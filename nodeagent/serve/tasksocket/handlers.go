package tasksocket

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

// direct performs the requests of the task.
func (s *Server) direct() Direct {
	return Direct{Client: s.cfg.Client, Self: s.cfg.Self, Own: s.cfg.Mode == types.SocketSelf, Library: s.cfg.Library, Log: s.cfg.Log}
}

func (s *Server) self(*http.Request) (any, error) { return s.cfg.Self, nil }

func (s *Server) state(r *http.Request) (any, error) {
	wanted, err := answer.Flag(r, "reads")
	if err != nil {
		return nil, err
	}
	return s.direct().State(r.Context(), wanted)
}

func (s *Server) set(r *http.Request, body *Set) (any, error) {
	if err := s.ownSet(body); err != nil {
		return nil, err
	}
	return s.direct().Set(r.Context(), *body)
}

func (s *Server) launch(r *http.Request, body *Launch) (any, error) {
	if body.Job != nil && len(body.Job.Policies) > 0 { // some read the nodes and the namespace
		release, err := s.useListing(r.Context())
		if err != nil {
			return nil, err
		}
		defer release()
	}
	return s.direct().Launch(r.Context(), *body)
}

func (s *Server) tasks(r *http.Request) (any, error) { return s.direct().Tasks(r.Context()) }

func (s *Server) status(r *http.Request) (any, error) {
	return s.direct().Status(r.Context(), r.PathValue("id"))
}

func (s *Server) stop(r *http.Request, body *Stop) (any, error) {
	return Committed{}, s.direct().Stop(r.Context(), r.PathValue("id"), *body)
}

func (s *Server) evict(r *http.Request, body *Evict) (any, error) {
	return Committed{}, s.direct().Evict(r.Context(), r.PathValue("id"), body.Attempt)
}

func (s *Server) reserve(r *http.Request, body *Reserve) (any, error) {
	return Committed{}, s.direct().Reserve(r.Context(), *body)
}

func (s *Server) unreserve(r *http.Request) (any, error) {
	return Committed{}, s.direct().Unreserve(r.Context(), r.PathValue("id"))
}

// wait answers when all tasks are in the requested state. After the timeout, it answers with those
// that are.
func (s *Server) wait(r *http.Request) (any, error) {
	query := r.URL.Query()
	var timeout time.Duration
	if text := query.Get("timeout"); text != "" {
		var err error
		if timeout, err = time.ParseDuration(text); err != nil || timeout <= 0 {
			return nil, types.Errorf(types.Invalid, "timeout: %q is no time to wait: write it such as 30s", text)
		}
	}
	return s.direct().Wait(r.Context(), query.Get("until"), timeout, query["id"]...)
}

func (s *Server) transact(r *http.Request, body *Transaction) (any, error) {
	if err := Shown(s.cfg.Self.Namespace, body.If); err != nil {
		return nil, err
	}
	return s.direct().Commit(r.Context(), *body)
}

// Shown refuses a condition on a key that the state does not show to a namespace: the answer would tell
// whether and when that key changed. Invalid: the error names the key.
func Shown(ns string, reads controlplane.ReadSet) error {
	for _, key := range slices.Sorted(maps.Keys(reads)) {
		if !cluster.Shown(ns, key) {
			return types.Errorf(types.Invalid, "if: %q is nothing that GET /v1/state shows to namespace %s: give what its reads name, or a part of it", key, ns)
		}
	}
	return nil
}
