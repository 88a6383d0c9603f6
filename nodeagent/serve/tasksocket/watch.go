package tasksocket

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/peers"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Removed is the event of a removed task, with the revision of that.
type Removed struct {
	ID       string `json:"id"`
	Revision int64  `json:"revision"`
	Removed  bool   `json:"removed"`
}

// ResourceChange is the event of a resource: its capacity at a place, or its removal there.
type ResourceChange struct {
	Name string `json:"name"`
	// Where is a node, "+" for every node, or "*" for the cluster.
	Where    string `json:"where"`
	Capacity string `json:"capacity,omitempty"`
	Removed  bool   `json:"removed,omitempty"`
}

// Synced is the event after the initial state is complete.
type Synced struct {
	Revision int64 `json:"revision"`
}

// Peers is the event of a change of the running tasks of the job: all of them, and the task itself,
// in order of their index.
type Peers struct {
	Peers []Peer `json:"peers"`
}

// Peer is a task of the job.
type Peer struct {
	Index int    `json:"index"`
	Task  string `json:"task"`
	// Address is host:port, with port 0 for a task without a port.
	Address string `json:"address"`
}

// watch streams changes as server-sent events.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	select {
	case s.watches <- struct{}{}:
		defer func() { <-s.watches }()
	default:
		answer.Refuse(w, types.Errorf(types.Unavailable, "watch: %d watches are open already: close one", maxWatches))
		return
	}
	most := s.cfg.Budget(r.Context()).Watches
	if !s.share.watch(most) {
		ns := s.cfg.Client.Namespace()
		answer.Refuse(w, types.Errorf(types.Unavailable,
			"watch: the tasks of namespace %s on this node have %d watches open: close one, or have an administrator allow more: %s",
			ns, most, action.RaiseBudget.Of(ns, "max-watches")))
		return
	}
	defer s.share.watches.Add(-1)
	after, err := resumeAfter(r)
	if err == nil {
		err = onlyParameters(r, "of", "id", "after")
	}
	of := r.URL.Query().Get("of")
	switch {
	case err != nil:
	case of != "" && of != "tasks" && of != "resources" && of != "peers":
		err = types.Errorf(types.Invalid, "of: %q is unknown: use tasks, resources or peers", of)
	case of == "peers" && s.cfg.Peers == nil:
		err = types.Errorf(types.Precondition, "of: this agent follows no peers: watch tasks")
	}
	if err != nil {
		answer.Refuse(w, err)
		return
	}
	out := answer.NewStream(w)
	defer out.End()
	switch of {
	case "peers":
		err = s.cfg.Peers(r.Context(), func(all []peers.Peer) error { return sendPeers(out, all) })
	default:
		err = s.direct().Watch(r.Context(), Watch{Of: of, IDs: r.URL.Query()["id"], After: after}, func(e Event) error {
			return out.Send(e.Kind, e.ID, e.Data)
		})
	}
	if r.Context().Err() == nil {
		// The answer has begun, so an event is the only way.
		_ = out.Send("error", 0, answer.Problem(err))
	}
}

// resumeAfter returns the last revision that a watcher has seen: from the parameter, or from the
// header that clients of server-sent events send by themselves.
func resumeAfter(r *http.Request) (int64, error) {
	text := r.Header.Get("Last-Event-ID")
	if p := r.URL.Query().Get("after"); p != "" {
		text = p
	}
	if text == "" {
		return 0, nil
	}
	after, err := strconv.ParseInt(text, 10, 64)
	if err != nil || after < 0 {
		return 0, types.Errorf(types.Invalid, "after: %q is no revision: give the id of the last event", text)
	}
	return after, nil
}

// taskEvents passes on changes of tasks.
func taskEvents(u controlplane.StatusUpdate, handle func(Event) error) error {
	for i, c := range u.Changes {
		var data any = Removed{ID: c.ID, Revision: c.Revision, Removed: true}
		if c.Status != nil {
			status := statusOf(c.ID, "", c.Status)
			status.Revision = c.Revision
			data = status
		}
		if err := pass(handle, "task", idOf(u.Revision, u.Synced || i < len(u.Changes)-1), data); err != nil {
			return err
		}
	}
	return synced(u.Synced, u.Revision, handle)
}

// resourceEvents passes on changes of resources.
func resourceEvents(u controlplane.ResourceUpdate, handle func(Event) error) error {
	for i, c := range u.Changes {
		out := ResourceChange{Name: c.Name, Where: c.Where, Removed: c.Resource == nil}
		if c.Resource != nil {
			out.Capacity = c.Resource.Capacity.Format(types.ResourceID(c.Name))
		}
		if err := pass(handle, "resource", idOf(u.Revision, u.Synced || i < len(u.Changes)-1), out); err != nil {
			return err
		}
	}
	return synced(u.Synced, u.Revision, handle)
}

// synced passes on that the initial state is complete.
func synced(complete bool, revision int64, handle func(Event) error) error {
	if !complete {
		return nil
	}
	return pass(handle, "synced", revision, Synced{revision})
}

// pass passes on one event. Only the last event of a revision has it as its id, so that a resumed
// watch misses nothing.
func pass(handle func(Event) error, kind string, id int64, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return types.Errorf(types.Internal, "write event: %w", err)
	}
	return handle(Event{Kind: kind, ID: id, Data: text})
}

// sendPeers sends a change of the running tasks of the job.
func sendPeers(to *answer.Stream, all []peers.Peer) error {
	out := Peers{Peers: make([]Peer, len(all))}
	for i, p := range all {
		out.Peers[i] = Peer{Index: p.Index, Task: p.Task, Address: p.Address()}
	}
	return to.Send("peers", 0, out)
}

// idOf returns the id of an event; 0 if more of its revision follow.
func idOf(revision int64, more bool) int64 {
	if more {
		return 0
	}
	return revision
}
