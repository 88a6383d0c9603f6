package esltest

import (
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
)

// Declare declares further shared policies.
func Declare(s *Sharing, more map[string]esl.Shared) {
	s.T.Helper()
	for id, p := range more {
		if err := s.Jobs.Declare(s.T.Context(), id, p, ""); err != nil {
			s.T.Fatal(err)
		}
	}
}

// Why returns why a task waits now.
func (s *Sharing) Why(task string) string {
	s.T.Helper()
	return strings.Join(why.Summaries(esl.Why(s.Snapshot(), builtin.Kinds(), cluster.ID{Namespace: "d", ID: task}, time.Now())), "; ")
}
