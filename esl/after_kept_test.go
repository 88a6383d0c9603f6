package esl_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// keptBriefly starts a cluster of nodes of four cores that keeps tasks which have ended for
// a few seconds.
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

// TestAfterOutlivesRetention: a graph that takes much longer than tasks that have ended are
// kept, whose nodes and keeper are lost meanwhile: what has ended is not forgotten.
func TestAfterOutlivesRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := keptBriefly(t, 3)
		l := submitted(t, jobs, []controlplane.Submission{
			called("fetch", "run", "1s"), called("fetch", "run", "2s"), called("clean", "run", "90s"),
			called("train", "run", "1m"), called("wrong", "run", "1s", "exit", "1"), called("late", "run", "1s"), called("report", "run", "1s"),
		}, esl.After{Tasks: map[string][]string{"train": {"fetch", "clean"}, "report": {"train", "fetch"}, "late": {"clean", "wrong"}}})
		for _, at := range []time.Duration{20 * time.Second, 25 * time.Second} {
			c.StopKeeping()
			pass(at)
			node := statuses(t, jobs, controlplane.UntilRunning, l.Tasks[2])[0].Node
			if err := c.Kill(t.Context(), node); err != nil {
				t.Fatal(err)
			}
			if err := c.Return(node); err != nil {
				t.Fatal(err)
			}
			c.Keep()
		}
		for i, s := range statuses(t, jobs, controlplane.UntilEnded, l.Tasks...) {
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
		nothingLeft(t, c)
		if all, _, err := jobs.Tasks(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("%d tasks are kept after the job has ended, %v", len(all), err)
		}
	})
}

// TestAfterJobsOutlivesRetention: one of the jobs that come before ends, and is forgotten,
// long before the other one does.
func TestAfterJobsOutlivesRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := keptBriefly(t, 1)
		short := submitted(t, jobs, []controlplane.Submission{called("x", "run", "2s")})
		long := submitted(t, jobs, []controlplane.Submission{called("x", "run", "2m")})
		next := submitted(t, jobs, []controlplane.Submission{called("y", "run", "1s")}, esl.After{Jobs: []string{short.Job, long.Job}})
		pass(time.Minute)
		if all, _, err := jobs.Tasks(t.Context()); err != nil || len(all) != 2 {
			t.Errorf("%d tasks are kept, %v", len(all), err)
		}
		c.StopKeeping()
		c.Keep()
		if text := why(t, c, next.Tasks[0]); !strings.Contains(text, "of job "+long.Job+", which is running") {
			t.Errorf("why: %q", text)
		}
		if s := statuses(t, jobs, controlplane.UntilEnded, next.Tasks...)[0]; s.Phase != types.Succeeded {
			t.Errorf("%s: %s", s.Phase, s.Reason)
		}
		nothingLeft(t, c)
	})
}

// TestAfterOfWhatIsForgotten: of tasks that an application has deleted nobody can say how
// they ended.
func TestAfterOfWhatIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := ordered(t, 1)
		c.StopKeeping()
		l := submitted(t, jobs, []controlplane.Submission{called("a", "run", "1s"), called("b", "run", "1s")}, esl.After{Tasks: map[string][]string{"b": {"a"}}})
		statuses(t, jobs, controlplane.UntilEnded, l.Tasks[0])
		if err := jobs.Remove(t.Context(), l.Tasks[0]); err != nil {
			t.Fatal(err)
		}
		c.Keep()
		if s := statuses(t, jobs, controlplane.UntilEnded, l.Tasks[1])[0]; s.Phase != types.Cancelled || !strings.Contains(s.Reason, "the tasks called a, which are not there") {
			t.Errorf("%s: %s", s.Phase, s.Reason)
		}
	})
}

// TestAfterAJobInPart: of a job without policies that goes on, what has ended is forgotten
// while it does. Who comes after that cannot know how it ended; who was there before does.
func TestAfterAJobInPart(t *testing.T) {
	for name, x := range map[string]struct {
		wait time.Duration
		want types.Phase
	}{"before": {0, types.Succeeded}, "later": {90 * time.Minute, types.Cancelled}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, jobs := ordered(t, 1)
				first := submitted(t, jobs, []controlplane.Submission{called("x", "run", "1s"), called("y", "run", "2h")})
				pass(x.wait)
				next := submitted(t, jobs, []controlplane.Submission{called("z", "run", "1s")}, esl.After{Jobs: []string{first.Job}})
				s := statuses(t, jobs, controlplane.UntilEnded, next.Tasks...)[0]
				if s.Phase != x.want || x.want == types.Cancelled && !strings.Contains(s.Reason, "of which 1 of 2 tasks had ended") {
					t.Errorf("%s: %s", s.Phase, s.Reason)
				}
			})
		})
	}
}
