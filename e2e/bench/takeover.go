package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

// runTakeover measures how long no task is bound after the scheduler of a namespace was killed,
// with another one present.
func runTakeover(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	s, err := rig.Interleave(ctx, cfg, rig.Arm{Name: "takeover", Measure: measureTakeover})
	if err != nil {
		return nil, err
	}
	const session = 5 // the session TTL of schedulers, by which the others know that they live, in seconds
	r := rig.NewRow(cfg, "takeover", "s", s.Of("takeover", "next_binding_s")).AddDetails(s, "takeover", "next_binding_s").AddViolations(s.Violations("takeover"))
	return []rig.Row{*r.Require(cfg.Must, rig.Target{AtMost: true, Must: session + 1, Unit: " s"})}, nil
}

// probeEvery is the interval between submitted probe tasks.
const probeEvery = 10 * time.Millisecond

func measureTakeover(ctx context.Context, cfg rig.Config) (rig.Figures, error) {
	return rig.OnCluster(ctx, cfg, func(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
		if _, err := loadBound(ctx, c, cfg.Nodes, cfg.Tasks); err != nil {
			return err
		}
		var both []*rig.Process
		for _, name := range []string{"scheduler-1", "scheduler-2"} {
			p, err := c.StartScheduler(name, true)
			if err != nil {
				return err
			}
			both = append(both, p)
		}
		owner, err := findOwner(ctx, c, both)
		if err != nil {
			return err
		}
		found["next_binding_s"], err = killAndWait(ctx, c, owner)
		return err
	})
}

// findOwner returns the scheduler that binds the tasks of the namespace, once all are registered.
func findOwner(ctx context.Context, c *rig.Cluster, among []*rig.Process) (*rig.Process, error) {
	if err := waitUntil(ctx, c, "schedulers", func(ctx context.Context) (bool, error) {
		page, err := c.Store.List(ctx, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Schedulers)})
		return len(page.KVs) == len(among), err
	}); err != nil {
		return nil, err
	}
	// The schedulers' views of each other are not observable: after this both know the other.
	if err := rig.Sleep(ctx, time.Second); err != nil {
		return nil, err
	}
	before := make([]float64, len(among))
	if err := countBinds(ctx, c, among, before); err != nil {
		return nil, err
	}
	if err := probeAgain(ctx, c); err != nil {
		return nil, err
	}
	after := make([]float64, len(among))
	if err := countBinds(ctx, c, among, after); err != nil {
		return nil, err
	}
	var owner *rig.Process
	for i, p := range among {
		if after[i] > before[i] && (owner == nil || after[i]-before[i] > 1) {
			owner = p
		}
	}
	if owner == nil {
		return nil, types.Errorf(types.Internal, "takeover: no server says that it bound the tasks")
	}
	return owner, nil
}

// countBinds stores the number of tasks that each scheduler has bound.
func countBinds(ctx context.Context, c *rig.Cluster, among []*rig.Process, into []float64) error {
	for i, p := range among {
		stats, err := p.Stats(ctx)
		if err != nil {
			return err
		}
		into[i] = stats[rig.CounterMetric+"binds_total"]
	}
	return nil
}

// waitUntil waits until a condition holds.
func waitUntil(ctx context.Context, c *rig.Cluster, what string, is func(context.Context) (bool, error)) error {
	for deadline := time.Now().Add(rig.Stall); time.Now().Before(deadline); {
		ok, err := is(ctx)
		if err != nil || ok {
			return err
		}
		if err := rig.Sleep(ctx, probeEvery); err != nil {
			return err
		}
	}
	return types.Errorf(types.Internal, "wait for %s: it did not come about within %s", what, rig.Stall)
}

// killAndWait kills a scheduler, and returns the time until the next task is bound, in seconds.
func killAndWait(ctx context.Context, c *rig.Cluster, p *rig.Process) (float64, error) {
	c.End(p, true)
	began := time.Now()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	bound, err := c.Watch(watching, controlplane.Prefix(controlplane.Bindings), nil)
	if err != nil {
		return 0, err
	}
	submitted := make(chan error, 1)
	go func() { submitted <- probeOn(watching, c) }()
	at, err := bound.Until(ctx, controlplane.Bindings, 1)
	stop()
	if probed := <-submitted; err == nil && ctx.Err() == nil && probed != nil && watching.Err() == nil {
		err = probed
	}
	return at.Sub(began).Seconds(), err
}

// probeOn submits tasks one by one until ctx is done.
func probeOn(ctx context.Context, c *rig.Cluster) error {
	for i := 0; ; i++ {
		if err := putProbe(ctx, c, fmt.Sprintf("after-%d", i)); err != nil {
			return err
		}
		if err := rig.Sleep(ctx, probeEvery); err != nil {
			return err
		}
	}
}
