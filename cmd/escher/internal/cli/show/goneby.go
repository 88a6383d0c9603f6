package show

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

// eventsOf returns the last events of an attempt, none if its node does not answer soon.
func eventsOf(ctx context.Context, f *cmdutil.Factory, id cluster.ID, node string, attempt int) []nodeapi.Event {
	const soon, most = 2 * time.Second, 10
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	var all []nodeapi.Event
	err := f.OnNode(ctx, node, func(c *nodeapi.Client) error {
		return c.Events(ctx, id.Namespace, id.ID, attempt, 0, false, func(e nodeapi.Event) error {
			all = append(all, e)
			return nil
		})
	})
	if err != nil {
		return nil
	}
	return all[max(0, len(all)-most):]
}

// setGoneBy sets when the process of a task that is ending is killed at the latest, by the events of
// its attempt. Its warning comes first, if it has one, then its stop signal, and then its grace.
func (t *TaskRow) setGoneBy(events []nodeapi.Event, spec *types.Spec, now time.Time) {
	grace := cmp.Or(t.stop.Grace, controlplane.GraceOf(spec))
	for _, e := range events {
		var at time.Time
		switch {
		case e.Step == nodeagent.StepWarned && spec.Warn != nil:
			at = e.At.Add(spec.Warn.Before + grace)
		case e.Step == nodeagent.StepSignalled:
			at = e.At.Add(grace)
		default:
			continue
		}
		t.GoneBy, t.left = &at, at.Sub(now)
	}
}

// goneAsked is the most tasks whose nodes are asked when they are killed.
const goneAsked = 16

// addGoneBy adds when tasks that are ending are killed, all at once. It leaves out what it cannot
// find out soon.
func addGoneBy(ctx context.Context, f *cmdutil.Factory, client *controlplane.Client, rows []TaskRow, now time.Time) {
	var all sync.WaitGroup
	defer all.Wait()
	asked := 0
	for i := range rows {
		row := &rows[i]
		if row.Ending == "" || row.Phase != types.Running || asked == goneAsked {
			continue
		}
		asked++
		all.Go(func() {
			if spec, err := client.Spec(ctx, row.spec); err == nil {
				events := eventsOf(ctx, f, cluster.ID{Namespace: client.Namespace(), ID: row.ID}, row.Node, row.Attempt)
				row.setGoneBy(events, spec, now)
			}
		})
	}
}
