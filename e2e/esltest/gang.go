package esltest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/types"
)

// Gangs is a cluster for tests of gangs.
type Gangs struct {
	*hollow.Cluster
	*esl.Client
	T *testing.T
}

func StartGangs(t *testing.T, cfg hollow.Config) Gangs {
	t.Helper()
	c, err := hollow.Start(context.Background(), cfg)
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
	return Gangs{c, jobs, t}
}

func (g Gangs) SubmitTasks(n int, task controlplane.Submission, policies ...esl.Policy) controlplane.Launched {
	g.T.Helper()
	job, err := g.Submit(g.T.Context(), controlplane.Job{Name: "train", Tasks: esl.Copies(n, task)}, policies...)
	if err != nil {
		g.T.Fatal(err)
	}
	return job
}

func (g Gangs) AwaitView(holds func(*cluster.View) bool) *cluster.View {
	g.T.Helper()
	ctx, cancel := context.WithTimeout(g.T.Context(), 10*time.Minute)
	defer cancel()
	v, err := g.Await(ctx, holds)
	if err != nil {
		g.T.Fatal(err)
	}
	return v
}

// Running waits until all tasks of a job run, and returns their nodes.
func (g Gangs) Running(job controlplane.Launched) []string {
	g.T.Helper()
	var nodes []string
	g.AwaitView(func(v *cluster.View) bool {
		on := hollow.Running(v, "d")
		nodes = nil
		for _, id := range job.Tasks {
			if on[id] != "" {
				nodes = append(nodes, on[id])
			}
		}
		return len(nodes) == len(job.Tasks)
	})
	return nodes
}

func (g Gangs) Snapshot() *cluster.View {
	g.T.Helper()
	v, err := g.View(g.T.Context())
	if err != nil {
		g.T.Fatal(err)
	}
	return v
}

// Ended waits until all tasks of a job have ended, and returns their statuses.
func (g Gangs) Ended(job controlplane.Launched) map[string]types.Status {
	g.T.Helper()
	ctx, cancel := context.WithTimeout(g.T.Context(), time.Hour)
	defer cancel()
	done, err := g.Wait(ctx, controlplane.UntilEnded, job.Tasks...)
	if err != nil {
		g.T.Fatal(err)
	}
	return done
}

// Clean checks that every invariant held, and that nothing is left.
func (g Gangs) Clean() {
	g.T.Helper()
	time.Sleep(5 * time.Second)
	if err := g.Audit(g.T.Context()); err != nil {
		g.T.Error(err)
	}
	if left, err := g.Left(g.T.Context(), "d"); err != nil || len(left) > 0 {
		g.T.Errorf("left: %q, %v", left, err)
	}
}

func (g Gangs) Why(id string) string {
	return strings.Join(why.Summaries(esl.Why(g.Snapshot(), builtin.Kinds(), cluster.ID{Namespace: "d", ID: id}, time.Now())), "\n")
}

func Count(names []string) map[string]int {
	n := make(map[string]int)
	for _, name := range names {
		n[name]++
	}
	return n
}
