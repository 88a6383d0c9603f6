package esltest

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// FailTask makes the process of a member fail, if it runs.
func (g Gangs) FailTask(id string) {
	g.T.Helper()
	if err := g.Finish(g.T.Context(), "d", id, 1); err != nil && !types.Is(err, types.NotFound) {
		g.T.Fatal(err)
	}
}

// Lose cuts a node off for good.
func (g Gangs) Lose(node string) {
	g.T.Helper()
	if err := g.Kill(g.T.Context(), node); err != nil {
		g.T.Fatal(err)
	}
}

// Preempt preempts a gang: its reservation is deleted, and all members are evicted.
func (g Gangs) Preempt(job controlplane.Launched) {
	g.T.Helper()
	tx := g.Begin().Unreserve(job.Job + ".gang")
	for _, id := range job.Tasks {
		tx.Evict(id, 1)
	}
	if _, err := tx.Commit(g.T.Context()); err != nil {
		g.T.Fatal(err)
	}
}
