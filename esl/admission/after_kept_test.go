package admission_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/types"
)

// keptBriefly starts a cluster of nodes of four cores that keeps ended tasks for a few seconds.
func keptBriefly(t *testing.T, nodes int) (*hollow.Cluster, *esl.Client) {
	t.Helper()
	brief := server.DefaultPolicy()
	brief.Interval, brief.KeepMin, brief.KeepAge = time.Second, 2*time.Second, 4*time.Second
	c, err := hollow.Start(context.Background(), hollow.Config{Nodes: hollow.Nodes(nodes, 4), Collector: brief})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	jobs, err := c.Client("d")
	if err != nil {
		t.Fatal(err)
	}
	return c, jobs
}

// TestAfterOutlivesRetention runs a graph for much longer than ended tasks are kept, and loses its
// nodes and the process that runs the policy: ended tasks still count.
func TestAfterOutlivesRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := keptBriefly(t, 3)
		l := esltest.Submitted(t, jobs, []controlplane.Submission{
			esltest.Called("fetch", "run", "1s"), esltest.Called("fetch", "run", "2s"), esltest.Called("clean", "run", "90s"),
			esltest.Called("train", "run", "1m"), esltest.Called("wrong", "run", "1s", "exit", "1"), esltest.Called("late", "run", "1s"), esltest.Called("report", "run", "1s"),
		}, admission.After{Tasks: map[string][]string{"train": {"fetch", "clean"}, "report": {"train", "fetch"}, "late": {"clean", "wrong"}}})
		for _, at := range []time.Duration{20 * time.Second, 25 * time.Second} {
			c.StopKeeping()
			esltest.Pass(at)
			node := esltest.Statuses(t, jobs, controlplane.UntilRunning, l.Tasks[2])[0].Node
			if err := c.Kill(t.Context(), node); err != nil {
				t.Fatal(err)
			}
			if err := c.Return(node); err != nil {
				t.Fatal(err)
			}
			c.Keep()
		}
		for i, s := range esltest.Statuses(t, jobs, controlplane.UntilEnded, l.Tasks...) {
			want := types.Succeeded
			if i == 4 {
				want = types.Failed
			} else if i == 5 {
				want = types.Cancelled
			}
			if s.Phase != want {
				t.Errorf("task %d %s: %s", i, s.Phase, s.Reason)
			}
		}
		esltest.NothingLeft(t, c)
		if all, _, err := jobs.Tasks(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("%d tasks are kept after the job has ended, %v", len(all), err)
		}
	})
}

// TestAfterJobsOutlivesRetention lets one of the preceding jobs end and be forgotten long before
// the other one.
func TestAfterJobsOutlivesRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := keptBriefly(t, 1)
		short := esltest.Submitted(t, jobs, []controlplane.Submission{esltest.Called("x", "run", "2s")})
		long := esltest.Submitted(t, jobs, []controlplane.Submission{esltest.Called("x", "run", "2m")})
		next := esltest.Submitted(t, jobs, []controlplane.Submission{esltest.Called("y", "run", "1s")}, admission.After{Jobs: []string{short.Job, long.Job}})
		esltest.Pass(time.Minute)
		if all, _, err := jobs.Tasks(t.Context()); err != nil || len(all) != 2 {
			t.Errorf("%d tasks are kept, %v", len(all), err)
		}
		c.StopKeeping()
		c.Keep()
		if text := esltest.TaskWhy(t, c, next.Tasks[0]); !strings.Contains(text, "of job "+long.Job+", which is running") {
			t.Errorf("why: %q", text)
		}
		if s := esltest.Statuses(t, jobs, controlplane.UntilEnded, next.Tasks...)[0]; s.Phase != types.Succeeded {
			t.Errorf("%s: %s", s.Phase, s.Reason)
		}
		esltest.NothingLeft(t, c)
	})
}

// TestAfterOfWhatIsForgotten deletes preceding tasks, whose outcome is then unknown.
func TestAfterOfWhatIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 1)
		c.StopKeeping()
		l := esltest.Submitted(t, jobs, []controlplane.Submission{esltest.Called("a", "run", "1s"), esltest.Called("b", "run", "1s")}, admission.After{Tasks: map[string][]string{"b": {"a"}}})
		esltest.Statuses(t, jobs, controlplane.UntilEnded, l.Tasks[0])
		if err := jobs.Remove(t.Context(), l.Tasks[0]); err != nil {
			t.Fatal(err)
		}
		c.Keep()
		if s := esltest.Statuses(t, jobs, controlplane.UntilEnded, l.Tasks[1])[0]; s.Phase != types.Cancelled || !strings.Contains(s.Reason, "the tasks called a, which are not there") {
			t.Errorf("%s: %s", s.Phase, s.Reason)
		}
	})
}

// TestAfterAJobInPart forgets ended tasks of a running job without policies. A job submitted later
// cannot know their outcome; a job submitted before can.
func TestAfterAJobInPart(t *testing.T) {
	for name, x := range map[string]struct {
		wait time.Duration
		want types.Phase
	}{"before": {0, types.Succeeded}, "later": {90 * time.Minute, types.Cancelled}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, jobs := esltest.Ordered(t, 1)
				first := esltest.Submitted(t, jobs, []controlplane.Submission{esltest.Called("x", "run", "1s"), esltest.Called("y", "run", "2h")})
				esltest.Pass(x.wait)
				next := esltest.Submitted(t, jobs, []controlplane.Submission{esltest.Called("z", "run", "1s")}, admission.After{Jobs: []string{first.Job}})
				s := esltest.Statuses(t, jobs, controlplane.UntilEnded, next.Tasks...)[0]
				if s.Phase != x.want || x.want == types.Cancelled && !strings.Contains(s.Reason, "of which 1 of 2 tasks had ended") {
					t.Errorf("%s: %s", s.Phase, s.Reason)
				}
			})
		})
	}
}
