package tasksocket

import (
	"context"
	"net/http"

	"github.com/escher-sched/escher/nodeagent/peers"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

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

// peers streams the running tasks of the job as server-sent events.
func (s *Server) peers(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Peers == nil {
		answer.Refuse(w, types.Errorf(types.Precondition, "peers: this agent follows none: watch tasks"))
		return
	}
	out := answer.NewStream(w)
	defer out.End()
	err := s.cfg.Peers(r.Context(), func(all []peers.Peer) error { return sendPeers(out, all) })
	if r.Context().Err() == nil {
		// The answer has begun, so an event is the only way.
		_ = out.Send("error", 0, answer.ProblemOf(err))
	}
}

// useWatch counts a watch until release. Unavailable: too many are open.
func (s *Server) useWatch(ctx context.Context) (release func(), err error) {
	select {
	case s.watches <- struct{}{}:
	default:
		return nil, types.Errorf(types.Unavailable, "watch: %d watches are open already: close one", maxWatches)
	}
	most := s.cfg.Budget(ctx).Watches
	if !s.share.watch(most) {
		<-s.watches
		ns := s.cfg.Client.Namespace()
		return nil, types.Errorf(types.Unavailable,
			"watch: the tasks of namespace %s on this node have %d watches open: close one, or have an administrator allow more: %s",
			ns, most, action.RaiseBudget.Of(ns, "max-watches"))
	}
	return func() {
		s.share.watches.Add(-1)
		<-s.watches
	}, nil
}

// sendPeers sends a change of the running tasks of the job.
func sendPeers(to *answer.Stream, all []peers.Peer) error {
	out := Peers{Peers: make([]Peer, len(all))}
	for i, p := range all {
		out.Peers[i] = Peer{Index: p.Index, Task: p.Task, Address: p.Address()}
	}
	return to.Send("peers", 0, out)
}
