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
	"github.com/escher-sched/escher/e2e/bench/rig"
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
	// flat bounds the growth of the database in the last third over the one before: its content
	// goes up and down with compaction.
	flat = 1.1
)

// lifecycleFor returns the duration of the measurement, and of the warm-up before it.
func lifecycleFor(cfg rig.Config) (warm, measured time.Duration) {
	if cfg.Quick {
		return 14 * time.Second, 12 * time.Second
	}
	return 20 * time.Second, time.Minute
}

// runLifecycle measures how many tasks per second a cluster takes from submission to the removal of
// all their keys: hollow agents run them, the collector removes them, and history is compacted.
func runLifecycle(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	warm, measured := lifecycleFor(cfg)
	direct := lifecycleArm(warm, measured)
	s, err := rig.Interleave(ctx, cfg, rig.Arm{Name: "lifecycle", Measure: direct},
		rig.Arm{Name: "lifecycle-gateway", Measure: func(ctx context.Context, cfg rig.Config) (rig.Figures, error) {
			cfg.Gateway = true
			return direct(ctx, cfg)
		}})
	if err != nil {
		return nil, err
	}
	through := rig.NewRow(cfg, "lifecycle-gateway", "tasks/s", s.Of("lifecycle-gateway", rig.Rate)).AddDetails(s, "lifecycle-gateway", rig.Rate).
		Over("lifecycle", s.Of("lifecycle-gateway", rig.Rate), s.Of("lifecycle", rig.Rate)).AddViolations(s.Violations("lifecycle-gateway"))
	r := rig.NewRow(cfg, "lifecycle", "tasks/s", s.Of("lifecycle", rig.Rate)).AddDetails(s, "lifecycle", rig.Rate).AddViolations(s.Violations("lifecycle"))
	return []rig.Row{*r.Require(cfg.Must, rig.Target{Must: 3000, Aim: 6000, Unit: "/s"},
		rig.Target{Figure: "key_writes", AtMost: true, Must: audit.MaxKeyWrites, Aim: 11, Unit: " key-writes"},
		rig.Target{Figure: "database_growth", AtMost: true, Must: flat, Unit: "x database"}),
		*through.Require(0, rig.Target{Figure: rig.Ratio, Must: 0.8, Aim: 0.9})}, nil
}

// lifecycleArm measures for a period, after a warm-up.
func lifecycleArm(warm, measured time.Duration) func(context.Context, rig.Config) (rig.Figures, error) {
	return func(ctx context.Context, cfg rig.Config) (rig.Figures, error) {
		return measureLifecycle(ctx, cfg, warm, measured)
	}
}

func measureLifecycle(ctx context.Context, cfg rig.Config, warm, measured time.Duration) (rig.Figures, error) {
	return rig.OnCluster(ctx, cfg, func(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
		h, err := newSparse(cfg, lifecycleRoom)
		if err != nil {
			return err
		}
		h.Absent = true // their agents begin the sessions
		if err := c.LoadNodes(ctx, h); err != nil {
			return err
		}
		names := make([]string, len(h.Nodes))
		for i := range names {
			names[i] = rig.NodeName(i)
		}
		if err := c.StartCollector(ctx); err != nil {
			return err
		}
		if _, err := c.StartScheduler(rig.RoleScheduler, false); err != nil {
			return err
		}
		return c.WithAgents(ctx, names, exponential(lifecycleRun), func(ctx context.Context) error { return keepBusy(ctx, c, h, warm, measured, found) })
	})
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

// keepBusy submits as much as finishes, and measures after a warm-up.
func keepBusy(ctx context.Context, c *rig.Cluster, h *rig.Hollow, warm, measured time.Duration, found rig.Figures) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var ended atomic.Int64
	_, err := c.Watch(ctx, controlplane.Prefix(controlplane.Statuses), func(b controlplane.Batch) { ended.Add(endedIn(b)) })
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for i := range lifecycleClients {
		g.Go(func() error { return submitJobs(ctx, c, h, i, &ended) })
	}
	g.Go(func() error {
		defer stop()
		if err := rig.Sleep(ctx, warm); err != nil {
			return err
		}
		u, err := c.Window(ctx, func(ctx context.Context) error { return countSteady(ctx, c, &ended, measured, found) })
		if err != nil {
			return err
		}
		return c.AddUsage(found, u, int(found[rig.Rate]*u.Wall.Seconds()))
	})
	if err := g.Wait(); found[rig.Rate] == 0 || err != nil && ctx.Err() == nil {
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
func submitJobs(ctx context.Context, c *rig.Cluster, h *rig.Hollow, number int, ended *atomic.Int64) error {
	client, err := controlplane.New(c.Store, rig.Namespace)
	if err != nil {
		return err
	}
	spec := &types.Spec{Image: "escher.local/bench:latest", Command: []string{"true"}}
	most := max(1, int64(len(h.Tasks)/lifecycleClients))
	size := min(lifecycleTasks, most)
	for n := int64(0); ; n++ {
		for n*size-ended.Load()/lifecycleClients > most-size {
			if err := rig.Sleep(ctx, 2*time.Millisecond); err != nil {
				return err
			}
		}
		tasks := make([]controlplane.Submission, size)
		for i := range tasks {
			shape := h.Shapes[h.Tasks[(int(n*size)+i)%len(h.Tasks)]]
			tasks[i] = controlplane.Submission{Task: types.Task{Name: "bench", Requests: shape}, Spec: spec}
		}
		if _, err := client.LaunchJob(ctx, controlplane.Job{Name: fmt.Sprintf("bench-%d", number), Tasks: tasks}); err != nil {
			return err
		}
	}
}

// countSteady counts for a period.
func countSteady(ctx context.Context, c *rig.Cluster, ended *atomic.Int64, measured time.Duration, found rig.Figures) error {
	before, err := c.EtcdCounters(ctx)
	if err != nil {
		return err
	}
	tasks, began := ended.Load(), time.Now()
	third := measured / 3
	if err := rig.Sleep(ctx, third); err != nil {
		return err
	}
	first, err := largestDatabase(ctx, c, third)
	if err != nil {
		return err
	}
	second, err := largestDatabase(ctx, c, third)
	if err != nil {
		return err
	}
	done := float64(ended.Load() - tasks)
	found[rig.Rate] = done / time.Since(began).Seconds()
	after, err := c.EtcdCounters(ctx)
	if err != nil {
		return err
	}
	each := func(name string) float64 { return (after[name] - before[name]) / max(1, done) }
	found["key_writes"] = each(rig.EtcdPuts) + each(rig.EtcdDeletes)
	found["txns"], found["compares"] = each(rig.EtcdEntries), each(rig.EtcdReads)
	found["database_third_mib"], found["database_end_mib"] = first, second
	found["database_growth"] = second / first
	return nil
}

// largestDatabase returns the largest size of the database within a period, history included, in
// MiB.
func largestDatabase(ctx context.Context, c *rig.Cluster, within time.Duration) (float64, error) {
	maint := server.NewMaintenance(c.Store.Client(), 0)
	most := int64(0)
	for end := time.Now().Add(within); time.Now().Before(end); {
		usage, err := maint.Usage(ctx)
		if err != nil {
			return 0, err
		}
		most = max(most, usage.InUse)
		if err := rig.Sleep(ctx, min(time.Second/2, max(0, time.Until(end)))); err != nil {
			return 0, err
		}
	}
	return float64(most) / (1 << 20), nil
}
