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

// Ordered starts a cluster of nodes of four cores that ends with the test, with a client.
func Ordered(t *testing.T, nodes int) (*hollow.Cluster, *esl.Client) {
	t.Helper()
	return OrderedOn(t, hollow.Nodes(nodes, 4))
}

// OrderedOn is Ordered with the given nodes.
func OrderedOn(t *testing.T, nodes []hollow.Node) (*hollow.Cluster, *esl.Client) {
	t.Helper()
	c, err := hollow.Start(context.Background(), hollow.Config{Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	client, err := c.Client("d")
	if err != nil {
		t.Fatal(err)
	}
	return c, client
}

// NothingLeft fails the test if an invariant was broken, or keys remain.
func NothingLeft(t *testing.T, c *hollow.Cluster) {
	t.Helper()
	time.Sleep(5 * time.Second) // the collector runs once a second
	if err := c.Audit(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := c.Left(t.Context(), "d"); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// Called returns a named task of half a core.
func Called(name string, command ...string) controlplane.Submission {
	s := hollow.Task(500, command...)
	s.Task.Name = name
	return s
}

// Submitted submits a job, and returns the ids of its tasks.
func Submitted(t *testing.T, jobs *esl.Client, tasks []controlplane.Submission, policies ...esl.Policy) controlplane.Launched {
	t.Helper()
	l, err := jobs.Submit(t.Context(), controlplane.Job{Name: "job", Tasks: tasks}, policies...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Statuses waits until tasks have reached a state, and returns their statuses in order.
func Statuses(t *testing.T, jobs *esl.Client, until controlplane.Until, ids ...string) []types.Status {
	t.Helper()
	all, err := jobs.Wait(t.Context(), until, ids...)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]types.Status, len(ids))
	for i, id := range ids {
		out[i] = all[id]
	}
	return out
}

// TaskWhy returns why a task waits now.
func TaskWhy(t *testing.T, c *hollow.Cluster, id string) string {
	t.Helper()
	v, err := c.Await(t.Context(), func(*cluster.View) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(why.Summaries(esl.Why(v, builtin.Kinds(), cluster.ID{Namespace: "d", ID: id}, time.Now())), " ")
}
