package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/types"
)

const (
	// lifecycleTasks is the largest number of tasks in a job.
	lifecycleTasks = 100
	// lifecycleClients is the number of clients that submit.
	lifecycleClients = 4
	// lifecycleRun is the average run time of a task.
	lifecycleRun = 100 * time.Millisecond
	// lifecycleRoom is the ratio of capacity to concurrent tasks: with tasks coming and going, no
	// capacity is kept for large ones.
	lifecycleRoom = 4
	// lifecycleKeep is how long finished tasks are kept, and lifecycleCompact the compaction
	// interval: short enough for all of it to happen within the measurement.
	lifecycleKeep    = 8 * time.Second
	lifecycleCompact = 4 * time.Second
	// flat bounds the growth of the database in the last third over the one before: its content
	// goes up and down with compaction.
	flat = 1.1
)

// lifecycleFor returns the duration of the measurement, and of the warm-up before it.
func lifecycleFor(cfg Config) (warm, measured time.Duration) {
	if cfg.Quick {
		return 14 * time.Second, 12 * time.Second
	}
	return 20 * time.Second, time.Minute
}

// runLifecycle measures how many tasks per second a cluster takes from submission to the removal of
// all their keys: hollow agents run them, the collector removes them, and history is compacted.
func runLifecycle(ctx context.Context, cfg Config) ([]Row, error) {
	warm, measured := lifecycleFor(cfg)
	s, err := interleave(ctx, cfg, arm{"lifecycle", lifecycleArm(warm, measured)})
	if err != nil {
		return nil, err
	}
	r := newRow(cfg, "lifecycle", "tasks/s", s.of("lifecycle", rate)).details(s, "lifecycle", rate).found(s.violations("lifecycle"))
	return []Row{*r.require(cfg.Must, target{must: 3000, aim: 6000, unit: "/s"},
		target{figure: "key_writes", atMost: true, must: audit.MaxKeyWrites, aim: 11, unit: " key-writes"},
		target{figure: "database_growth", atMost: true, must: flat, unit: "x database"})}, nil
}

// lifecycleArm measures for a period, after a warm-up.
func lifecycleArm(warm, measured time.Duration) func(context.Context, Config) (figures, error) {
	return func(ctx context.Context, cfg Config) (figures, error) {
		return measureLifecycle(ctx, cfg, warm, measured)
	}
}

func measureLifecycle(ctx context.Context, cfg Config, warm, measured time.Duration) (figures, error) {
	return onCluster(ctx, cfg, func(ctx context.Context, c *cluster, found figures) error {
		h, err := newSparse(cfg, lifecycleRoom)
		if err != nil {
			return err
		}
		h.absent = true // their agents begin the sessions
		if err := c.loadNodes(ctx, h); err != nil {
			return err
		}
		names := make([]string, len(h.nodes))
		for i := range names {
			names[i] = nodeName(i)
		}
		if err := c.startCollector(ctx); err != nil {
			return err
		}
		if _, err := c.startScheduler(roleScheduler, false); err != nil {
			return err
		}
		return c.withAgents(ctx, names, exponential(lifecycleRun), func(ctx context.Context) error { return c.live(ctx, h, warm, measured, found) })
	})
}

// startCollector starts the collector, which keeps finished tasks briefly.
func (c *cluster) startCollector(ctx context.Context) error {
	policy := server.DefaultPolicy()
	policy.Interval, policy.KeepMin, policy.KeepAge = lifecycleCompact, lifecycleKeep, lifecycleKeep
	policy.SpecGrace, policy.OrphanGrace = time.Minute, time.Minute
	p, err := c.start(roleCollector, roleCollector, roleConfig{Endpoint: c.endpoint, Ops: c.cfg.Ops, Policy: &policy})
	if err != nil {
		return err
	}
	_, err = p.ready(ctx)
	return err
}

// exponential returns run times with the given mean.
func exponential(mean time.Duration) func(controlplane.Key, *types.Binding) time.Duration {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(3, 3))
	return func(controlplane.Key, *types.Binding) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(rng.ExpFloat64() * float64(mean))
	}
}

// live submits as much as finishes, and measures after a warm-up.
func (c *cluster) live(ctx context.Context, h *hollow, warm, measured time.Duration, found figures) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var ended atomic.Int64
	_, err := c.watch(ctx, controlplane.Prefix(controlplane.Statuses), func(b controlplane.Batch) { ended.Add(endedIn(b)) })
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for i := range lifecycleClients {
		g.Go(func() error { return c.submitJobs(ctx, h, i, &ended) })
	}
	g.Go(func() error {
		defer stop()
		if err := sleep(ctx, warm); err != nil {
			return err
		}
		u, err := c.window(ctx, func(ctx context.Context) error { return c.steady(ctx, &ended, measured, found) })
		if err != nil {
			return err
		}
		return c.add(found, u, int(found[rate]*u.wall.Seconds()))
	})
	if err := g.Wait(); found[rate] == 0 || err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// endedIn returns how many tasks ended in a batch.
func endedIn(b controlplane.Batch) (n int64) {
	for _, e := range b.Events {
		if e.Delete {
			continue
		}
		var s types.Status
		if types.Decode(e.Value, &s) == nil && s.Phase.Ended() {
			n++
		}
	}
	return n
}

// submitJobs submits jobs one by one, enough to keep each node busy and no more: with a faster
// client, jobs would only wait for nodes.
func (c *cluster) submitJobs(ctx context.Context, h *hollow, number int, ended *atomic.Int64) error {
	client, err := controlplane.New(c.store, ns)
	if err != nil {
		return err
	}
	spec := &types.Spec{Image: "escher.local/bench:latest", Command: []string{"true"}}
	most := max(1, int64(len(h.tasks)/lifecycleClients))
	size := min(lifecycleTasks, most)
	for n := int64(0); ; n++ {
		for n*size-ended.Load()/lifecycleClients > most-size {
			if err := sleep(ctx, 2*time.Millisecond); err != nil {
				return err
			}
		}
		tasks := make([]controlplane.Submission, size)
		for i := range tasks {
			shape := h.shapes[h.tasks[(int(n*size)+i)%len(h.tasks)]]
			tasks[i] = controlplane.Submission{Task: types.Task{Name: "bench", Requests: shape}, Spec: spec}
		}
		if _, err := client.LaunchJob(ctx, controlplane.Job{Name: fmt.Sprintf("bench-%d", number), Tasks: tasks}); err != nil {
			return err
		}
	}
}

// steady counts for a period.
func (c *cluster) steady(ctx context.Context, ended *atomic.Int64, measured time.Duration, found figures) error {
	before, err := c.etcdCounted(ctx)
	if err != nil {
		return err
	}
	tasks, began := ended.Load(), time.Now()
	third := measured / 3
	if err := sleep(ctx, third); err != nil {
		return err
	}
	first, err := c.largest(ctx, third)
	if err != nil {
		return err
	}
	second, err := c.largest(ctx, third)
	if err != nil {
		return err
	}
	done := float64(ended.Load() - tasks)
	found[rate] = done / time.Since(began).Seconds()
	after, err := c.etcdCounted(ctx)
	if err != nil {
		return err
	}
	each := func(name string) float64 { return (after[name] - before[name]) / max(1, done) }
	found["key_writes"] = each(etcdPuts) + each(etcdDeletes)
	found["txns"], found["compares"] = each(etcdEntries), each(etcdReads)
	found["database_third_mib"], found["database_end_mib"] = first, second
	found["database_growth"] = second / first
	return nil
}

// largest returns the largest size of the database within a period, history included, in MiB.
func (c *cluster) largest(ctx context.Context, within time.Duration) (float64, error) {
	maint := server.NewMaintenance(c.store.Client(), 0)
	most := int64(0)
	for end := time.Now().Add(within); time.Now().Before(end); {
		usage, err := maint.Usage(ctx)
		if err != nil {
			return 0, err
		}
		most = max(most, usage.InUse)
		if err := sleep(ctx, min(time.Second/2, max(0, time.Until(end)))); err != nil {
			return 0, err
		}
	}
	return float64(most) / (1 << 20), nil
}
