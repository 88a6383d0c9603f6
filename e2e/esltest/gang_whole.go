package esltest

import (
	"context"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/types"
)

// inPart records the longest time for which only a part of a gang ran.
type inPart struct {
	since time.Time
	most  time.Duration
}

func (p *inPart) look(v *cluster.View, job controlplane.Launched) {
	switch n := len(hollow.Running(v, "d")); {
	case n == 0 || n == len(job.Tasks):
		p.since = time.Time{}
	case p.since.IsZero():
		p.since = time.Now()
	default:
		p.most = max(p.most, time.Since(p.since))
	}
}

// Partial watches a gang during do, and returns the longest time for which only a part of it ran.
func (g Gangs) Partial(job controlplane.Launched, do func()) time.Duration {
	g.T.Helper()
	var p inPart
	ctx, cancel := context.WithCancel(g.T.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = g.Await(ctx, func(v *cluster.View) bool { p.look(v, job); return false })
	}()
	do()
	cancel()
	<-done
	p.look(g.Snapshot(), job)
	return p.most
}

// Attempts returns the number of running members of a gang by attempt number.
func (g Gangs) Attempts(job controlplane.Launched) (at map[int]int) {
	at = make(map[int]int)
	v := g.Snapshot()
	for _, id := range job.Tasks {
		if t := v.Task(cluster.ID{Namespace: "d", ID: id}); t.Phase() == types.Running {
			at[t.Status.V.Attempt]++
		}
	}
	return at
}

func (g Gangs) Drain(node string) {
	g.T.Helper()
	if _, err := g.Cordon(g.T.Context(), node, types.Cordon{Drain: types.DrainMove}); err != nil {
		g.T.Fatal(err)
	}
}
