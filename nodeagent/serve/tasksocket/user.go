package tasksocket

import (
	"net/http"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/submitter"
	"github.com/escher-sched/escher/types"
)

// submitting returns a request as one of the user of the task: what a task submits counts for its user.
func (s *Server) submitting(r *http.Request) (*http.Request, error) {
	user := s.user.Load()
	if user == nil {
		kv, err := controlplane.Get(r.Context(), s.cfg.Client.Store(), controlplane.TaskKey(s.cfg.Self.Namespace, s.cfg.Self.Task))
		var t types.Task
		switch {
		case err != nil:
			return nil, err
		case kv.ModRevision == 0 || !controlplane.Read(kv, &t):
			return r, nil // it is gone, and this socket ends
		}
		user = &t.User
		s.user.Store(user) // it never changes
	}
	if *user == "" {
		return r, nil
	}
	return r.WithContext(submitter.With(r.Context(), submitter.Submitter{User: *user, ForOthers: func(string) error {
		return types.Errorf(types.Denied, "a task submits for its own user alone")
	}})), nil
}
