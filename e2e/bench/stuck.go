package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	decoded "github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/scheduler/explain"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// explainStuck adds to an error why the oldest unbound tasks wait: the drawn workload may not fit,
// or a scheduler may have forgotten them.
func explainStuck(ctx context.Context, c *rig.Cluster, because error) error {
	v, err := readView(ctx, c)
	if err != nil {
		return errors.Join(because, err)
	}
	var waiting []*decoded.Task
	for t := range v.Tasks() {
		if t.Info.V != nil && t.Status.V == nil && (t.Info.V.Job != waiters) {
			waiting = append(waiting, t)
		}
	}
	slices.SortFunc(waiting, func(a, b *decoded.Task) int { return strings.Compare(a.ID.ID, b.ID.ID) })
	var lines []string
	for _, t := range waiting[:min(2, len(waiting))] {
		x, err := explain.Explain(v, t.ID, time.Now())
		if err != nil {
			return errors.Join(because, err)
		}
		lines = append(lines, fmt.Sprintf("task %s asks for %v", t.ID.ID, t.Info.V.Requests))
		lines = append(lines, x.Lines(true, action.Action.String)...)
	}
	return types.Errorf(types.ClassOf(because), "%w; %d tasks wait:\n%s", because, len(waiting), strings.Join(lines, "\n"))
}

// readView reads the whole state.
func readView(ctx context.Context, c *rig.Cluster) (*decoded.View, error) {
	errRead := errors.New("read")
	v := decoded.New()
	specs := controlplane.Prefix(controlplane.Specs)
	opts := controlplane.ListWatchOptions{Prefix: controlplane.Root, Skip: func(key string) bool { return strings.HasPrefix(key, specs) }}
	err := controlplane.ListWatch(ctx, c.Store, opts, func(u controlplane.Update) error {
		for _, e := range u.Events {
			if _, _, err := v.Apply(e); err != nil {
				return err
			}
		}
		v.Reached(u.Revision)
		return errRead
	})
	if !errors.Is(err, errRead) {
		return nil, err
	}
	return v, nil
}
