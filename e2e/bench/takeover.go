package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// runTakeover measures how long no task is bound after the scheduler of a namespace was killed,
// with another one present.
func runTakeover(ctx context.Context, cfg Config) ([]Row, error) {
	s, err := interleave(ctx, cfg, arm{"takeover", measureTakeover})
	if err != nil {
		return nil, err
	}
	const session = 5 // the session TTL of schedulers, by which the others know that they live, in seconds
	r := newRow(cfg, "takeover", "s", s.of("takeover", "next_binding_s")).details(s, "takeover", "next_binding_s").found(s.violations("takeover"))
	return []Row{*r.require(cfg.Must, target{atMost: true, must: session + 1, unit: " s"})}, nil
}

// probeEvery is the interval between submitted probe tasks.
const probeEvery = 10 * time.Millisecond

func measureTakeover(ctx context.Context, cfg Config) (figures, error) {
	return onCluster(ctx, cfg, func(ctx context.Context, c *cluster, found figures) error {
		if _, err := c.loadBound(ctx, cfg.Nodes, cfg.Tasks); err != nil {
			return err
		}
		var both []*process
		for _, name := range []string{"scheduler-1", "scheduler-2"} {
			p, err := c.startScheduler(name, true)
			if err != nil {
				return err
			}
			both = append(both, p)
		}
		owner, err := c.owner(ctx, both)
		if err != nil {
			return err
		}
		found["next_binding_s"], err = c.killed(ctx, owner)
		return err
	})
}

// owner returns the scheduler that binds the tasks of the namespace, once all are registered.
func (c *cluster) owner(ctx context.Context, among []*process) (*process, error) {
	if err := c.until(ctx, "schedulers", func(ctx context.Context) (bool, error) {
		page, err := c.store.List(ctx, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Schedulers)})
		return len(page.KVs) == len(among), err
	}); err != nil {
		return nil, err
	}
	// The schedulers' views of each other are not observable: after this both know the other.
	if err := sleep(ctx, time.Second); err != nil {
		return nil, err
	}
	before := make([]float64, len(among))
	if err := c.binds(ctx, among, before); err != nil {
		return nil, err
	}
	if err := c.probeAgain(ctx); err != nil {
		return nil, err
	}
	after := make([]float64, len(among))
	if err := c.binds(ctx, among, after); err != nil {
		return nil, err
	}
	var owner *process
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

// binds stores the number of tasks that each scheduler has bound.
func (c *cluster) binds(ctx context.Context, among []*process, into []float64) error {
	for i, p := range among {
		stats, err := p.stats(ctx)
		if err != nil {
			return err
		}
		into[i] = stats[partMetric+"binds_total"]
	}
	return nil
}

// until waits until a condition holds.
func (c *cluster) until(ctx context.Context, what string, is func(context.Context) (bool, error)) error {
	for deadline := time.Now().Add(stall); time.Now().Before(deadline); {
		ok, err := is(ctx)
		if err != nil || ok {
			return err
		}
		if err := sleep(ctx, probeEvery); err != nil {
			return err
		}
	}
	return types.Errorf(types.Internal, "wait for %s: it did not come about within %s", what, stall)
}

// killed kills a scheduler, and returns the time until the next task is bound, in seconds.
func (c *cluster) killed(ctx context.Context, p *process) (float64, error) {
	c.end(p, true)
	began := time.Now()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	bound, err := c.watch(watching, controlplane.Prefix(controlplane.Bindings), nil)
	if err != nil {
		return 0, err
	}
	submitted := make(chan error, 1)
	go func() { submitted <- c.probeOn(watching) }()
	at, err := bound.until(ctx, controlplane.Bindings, 1)
	stop()
	if probed := <-submitted; err == nil && ctx.Err() == nil && probed != nil && watching.Err() == nil {
		err = probed
	}
	return at.Sub(began).Seconds(), err
}

// probeOn submits tasks one by one until ctx is done.
func (c *cluster) probeOn(ctx context.Context) error {
	for i := 0; ; i++ {
		if err := c.putProbe(ctx, fmt.Sprintf("after-%d", i)); err != nil {
			return err
		}
		if err := sleep(ctx, probeEvery); err != nil {
			return err
		}
	}
}
