package admission_test

import (
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/types"
)

// TestLimit runs ten tasks, at most three at a time, and checks every revision. No program runs the
// policies meanwhile, and a node is lost.
func TestLimit(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(3, 8), func(s *esltest.Site) {
		tasks := esl.Copies(10, hollow.Task(100, "run", "10s"))
		for i := range tasks {
			tasks[i].Task.Name = "part"
		}
		s.C.StopKeeping()
		most, stop := s.WatchMost("part")
		job := s.Run("array", tasks, admission.Limit{AtOnce: 3})
		s.Pass(time.Second)
		running := s.Running(job)
		if len(running) != 3 {
			t.Errorf("%d run, want 3", len(running))
		}
		v := s.Snapshot()
		for _, id := range job.Tasks {
			says := esl.Why(v, builtin.Kinds(), cluster.ID{Namespace: "d", ID: id}, time.Now())
			switch _, runs := running[id]; {
			case runs && len(says) > 0:
				t.Errorf("of %s, which runs, it says %v", id, says)
			case !runs && (len(says) != 1 || says[0].Summary != "The job runs at most 3 tasks at once."):
				t.Errorf("of %s, which waits, it says %v", id, says)
			}
		}
		for _, node := range running {
			s.Must(s.C.Kill(s.Context(), node))
			break
		}
		s.C.Keep()
		for ended := false; !ended; {
			s.Pass(time.Second)
			ended = true
			for _, id := range job.Tasks {
				ended = ended && s.Snapshot().Task(cluster.ID{Namespace: "d", ID: id}).Phase() == types.Succeeded
			}
		}
		stop()
		if got := <-most; got != 3 {
			t.Errorf("%d had a node at once, want 3", got)
		}
		s.NothingLeft(job)
	})
}

// TestLimitChecks refuses limits out of range, and all of a gang at once beyond the limit.
func TestLimitChecks(t *testing.T) {
	for wrong, policies := range map[string][]esl.Policy{
		"atOnce: 0 is out of range":         {admission.Limit{}},
		"atOnce: -1 is out of range":        {admission.Limit{AtOnce: -1}},
		"atOnce: 1073741825 is out of rang": {admission.Limit{AtOnce: 1<<30 + 1}},
		"gang and limit exclude each other": {gang.Gang{}, admission.Limit{AtOnce: 3}},
		"":                                  {gang.Gang{}, admission.Limit{AtOnce: 4}},
	} {
		g := esl.Group{ID: "j", Tasks: esl.Copies(4, hollow.Task(100))}
		err := g.Apply(policies)
		if wrong == "" && err != nil || wrong != "" && (!types.Is(err, types.Invalid) || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%+v: %v, want %q", policies, err, wrong)
		}
	}
}
