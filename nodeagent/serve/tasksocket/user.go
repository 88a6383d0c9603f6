package tasksocket

import (
	"context"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// userOf returns the user of the task; empty for none.
func (s *Server) userOf(ctx context.Context) (string, error) {
	if user := s.user.Load(); user != nil {
		return *user, nil
	}
	kv, err := controlplane.Get(ctx, s.cfg.Client.Store(), controlplane.TaskKey(s.cfg.Self.Namespace, s.cfg.Self.Task))
	var t types.Task
	if err != nil || kv.ModRevision == 0 || !controlplane.Read(kv, &t) {
		return "", err // without a task, this socket ends
	}
	s.user.Store(&t.User) // it never changes
	return t.User, nil
}
