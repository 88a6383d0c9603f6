package rig

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/types"
)

// Size is the default size of a scenario.
type Size struct{ Nodes, Tasks, Rounds int }

// Scenario is one kind of measurement.
type Scenario struct {
	// Name selects it, and About describes it in a line.
	Name, About string
	// Containers reports whether it needs root and containerd.
	Containers bool
	// Replays reports whether it can measure the jobs of Config.Workload, of which the nodes are then by
	// default.
	Replays bool
	// Full is its usual size, Quick a size that takes less than a minute.
	Full, Quick Size
	// Run measures. All defaults of the configuration are filled in.
	Run func(context.Context, Config) ([]Row, error)
}

// mostReplayed is how many jobs of Config.Workload are measured unless a number is given.
const mostReplayed = 100_000

// of returns the configuration for a scenario, with its defaults filled in.
func (c Config) of(s Scenario) (Config, error) {
	usual := s.Full
	if c.Quick {
		usual = s.Quick
	}
	c.Scenario, c.Label = s.Name, s.Name
	if c.Workload != "" {
		if !s.Replays {
			return c, types.Errorf(types.Invalid, "workload: %q: scenario %s has a workload of its own: leave it out, or measure order or frontier", c.Workload, s.Name)
		}
		if c.Nodes < 0 || c.Tasks < 0 {
			return c, types.Errorf(types.Invalid, "nodes %d, tasks %d: neither may be negative: leave them out for those of the workload", c.Nodes, c.Tasks)
		}
		c.Tasks = cmp.Or(c.Tasks, mostReplayed)
	} else {
		c.Nodes, c.Tasks = cmp.Or(c.Nodes, usual.Nodes), cmp.Or(c.Tasks, usual.Tasks)
	}
	c.Rounds, c.Ops = cmp.Or(c.Rounds, usual.Rounds), cmp.Or(c.Ops, StockOps)
	if c.Nodes < 1 && c.Workload == "" || c.Tasks < 1 || c.Rounds < 1 {
		return c, types.Errorf(types.Invalid, "nodes %d, tasks %d, rounds %d: each must be at least 1", c.Nodes, c.Tasks, c.Rounds)
	}
	if c.Ops < StockOps {
		return c, types.Errorf(types.Invalid, "ops: %d is less than etcd's own %d: use at least that", c.Ops, StockOps)
	}
	return c, refuseTmpfs(c.Dir)
}

// Measure measures scenarios, and returns the rows. The error joins all failures; the rows of the
// rest are returned with it.
func Measure(ctx context.Context, cfg Config, chosen ...Scenario) ([]Row, error) {
	var each []Config
	for _, s := range chosen {
		c, err := cfg.of(s)
		if err != nil {
			return nil, err
		}
		each = append(each, c)
	}
	defer collectSparingly(ctx)()
	fsync, err := fsyncLatency(cfg.Dir)
	if err != nil {
		return nil, err
	}
	cfg, end := cfg.WithProgress()
	defer end()
	cfg.Say("disk: fsync %s (median of 100) in %s", fsync.Round(time.Microsecond), cfg.Dir)
	var rows []Row
	var errs []error
	for i, s := range chosen {
		each[i].progress = cfg.progress
		more, err := s.Run(ctx, each[i])
		rows, errs = append(rows, more...), append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return rows, errors.Join(errs...)
}

// collectSparingly makes garbage collection rare, so that the load does not disturb the
// measurement; ended ends that.
func collectSparingly(ctx context.Context) (ended func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.CollectGarbage(ctx) // its error is that ctx is done
	}()
	return func() {
		cancel()
		<-done
	}
}
