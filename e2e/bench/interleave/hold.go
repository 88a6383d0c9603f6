package interleave

import (
	"context"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// measureHold measures how long a task takes to get a unit.
func measureHold(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	s, err := rig.Interleave(ctx, cfg,
		rig.Arm{Name: "hold", Measure: func(ctx context.Context, cfg rig.Config) (rig.Figures, error) { return holds(ctx, cfg, 1) }},
		rig.Arm{Name: "hold-two", Measure: func(ctx context.Context, cfg rig.Config) (rig.Figures, error) { return holds(ctx, cfg, 2) }})
	if err != nil {
		return nil, err
	}
	var rows []rig.Row
	for _, name := range []string{"hold", "hold-two"} {
		row := rig.NewRow(cfg, name, "ms", s.Of(name, holdTime)).AddDetails(s, name, holdTime)
		rows = append(rows, *row.Require(0, rig.Target{AtMost: true, Must: 2, Unit: " ms"}))
	}
	return rows, nil
}

// holdTime is the mean time for one hold, from asking for it until it is returned.
const holdTime = "hold_ms"

// holds has tasks take one unit in turn, and return it at once.
func holds(ctx context.Context, cfg rig.Config, tasks int) (found rig.Figures, err error) {
	err = rig.WithDirectory(cfg, func(dir string) error {
		client, err := oneUnit(ctx)
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(ctx)
		var served, asking errgroup.Group
		defer func() { stop(); _ = served.Wait() }() // they end with ctx
		bounds, api := tasksocket.NewBounds(), rest.ForTasks(rest.Config{Store: client.Store(), Now: time.Now})
		each := cfg.Tasks / tasks
		begin := time.Now()
		for i := range tasks {
			dir := filepath.Join(dir, strconv.Itoa(i))
			s, err := tasksocket.Listen(tasksocket.Config{Dir: dir, Client: client, Bounds: bounds, API: api, Self: tasksocket.Self{Namespace: rig.Namespace, Task: "t", Node: "n1"}})
			if err != nil {
				return err
			}
			served.Go(func() error { return s.Run(ctx) })
			asking.Go(func() error { return ask(ctx, filepath.Join(dir, tasksocket.Name), each) })
		}
		if err := asking.Wait(); err != nil {
			return err
		}
		found = rig.Figures{holdTime: time.Since(begin).Seconds() * 1000 / float64(each*tasks)}
		return nil
	})
	return found, err
}

// oneUnit returns a client of a store where a node has a unit of a resource.
func oneUnit(ctx context.Context) (*controlplane.Client, error) {
	store := memstore.New()
	change := controlplane.NewChange(1)
	change.Put(controlplane.ResourceKey(rig.Namespace, unit, "n1"), &types.Resource{Capacity: 1000})
	if _, err := store.Commit(ctx, change.Txn()); err != nil {
		return nil, err
	}
	return controlplane.New(store, rig.Namespace)
}

const unit = "turn"

// ask takes a unit n times by a socket.
func ask(ctx context.Context, socket string, n int) error {
	client, err := requests.AtSocket(socket, rig.Namespace, time.Now)
	if err != nil {
		return err
	}
	defer client.Close()
	for range n {
		release, err := client.Hold(ctx, unit, 0)
		if err != nil {
			return err
		}
		release()
	}
	return nil
}
