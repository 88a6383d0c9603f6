package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/workload"
	"github.com/escher-sched/escher/types"
)

const (
	// latencyRate is the number of tasks submitted per second, putRate the number of single puts
	// per second meanwhile.
	latencyRate = 100
	putRate     = 50
)

// runLatency measures the time from the client's call until it receives the event that the task is
// bound, under a steady load: tasks arrive at random, whether or not earlier ones are bound. The
// base is a put, measured meanwhile.
func runLatency(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	s, err := rig.Interleave(ctx, cfg, rig.Arm{Name: "latency", Measure: measureLatency})
	if err != nil {
		return nil, err
	}
	p50, p99, put := s.Of("latency", "bound_p50_ms"), s.Of("latency", "bound_p99_ms"), s.Of("latency", "put_p50_ms")
	r := rig.NewRow(cfg, "latency", "ms", p50).Over("put", p50, put)
	r.P50, r.P99 = rig.Median(p50), rig.Median(p99)
	r.AddDetails(s, "latency", "bound_p50_ms", "put_p50_ms").AddDetail("p99_ratio", rig.Ratios(p99, put)).AddViolations(s.Violations("latency"))
	return []rig.Row{*r.Require(cfg.Must, rig.Target{Figure: rig.Ratio, AtMost: true, Must: 4, Aim: 3}, rig.Target{Figure: "p99_ratio", AtMost: true, Must: 15, Unit: "x at p99"})}, nil
}

func measureLatency(ctx context.Context, cfg rig.Config) (rig.Figures, error) {
	return rig.OnCluster(ctx, cfg, func(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
		h, err := newSparse(cfg, 1)
		if err != nil {
			return err
		}
		if err := c.LoadNodes(ctx, h); err != nil {
			return err
		}
		if _, err := c.StartScheduler(rig.RoleScheduler, false); err != nil {
			return err
		}
		l, err := newLatency(c, h)
		if err != nil {
			return err
		}
		u, err := c.Window(ctx, l.run)
		if err != nil {
			return err
		}
		l.tell(found)
		return c.AddUsage(found, u, len(h.Tasks))
	})
}

// newSparse makes the cluster of a configuration with capacity for room times as many tasks, and
// for at least ten per node: the tasks are a part of those that would fill it.
func newSparse(cfg rig.Config, room int) (*rig.Hollow, error) {
	const perNode = 10
	f, err := workload.NewFleet(cfg.Nodes, max(room*cfg.Tasks, perNode*cfg.Nodes), rig.Seed)
	if err != nil {
		return nil, err
	}
	h := rig.HollowOf(f)
	every := len(h.Tasks) / cfg.Tasks
	for i := range cfg.Tasks {
		h.Tasks[i] = h.Tasks[i*every]
	}
	h.Tasks = h.Tasks[:cfg.Tasks]
	return h, nil
}

// latency is a steady load and its results.
type latency struct {
	c      *rig.Cluster
	h      *rig.Hollow
	client *controlplane.Client

	mu sync.Mutex
	// submitted and bound are the times, by task.
	submitted, bound map[string]time.Time
	all              chan struct{}
	puts             rig.Durations
	launches         rig.Durations
}

func newLatency(c *rig.Cluster, h *rig.Hollow) (*latency, error) {
	client, err := controlplane.New(c.Store, rig.Namespace)
	return &latency{
		c: c, h: h, client: client, all: make(chan struct{}),
		submitted: make(map[string]time.Time), bound: make(map[string]time.Time),
	}, err
}

// run submits all tasks and waits until they are bound.
func (l *latency) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	synced := make(chan struct{})
	g.Go(func() error { return l.watch(ctx, synced) })
	g.Go(func() error {
		defer stop()
		<-synced
		var loads errgroup.Group
		loads.Go(func() error {
			return poisson(ctx, 1, latencyRate, len(l.h.Tasks), func(i int) error { return l.submit(ctx, i) })
		})
		loads.Go(func() error {
			return poisson(ctx, 2, putRate, len(l.h.Tasks)*putRate/latencyRate, func(i int) error { return l.put(ctx, i) })
		})
		if err := loads.Wait(); err != nil {
			return err
		}
		select {
		case <-l.all:
			return nil
		case <-time.After(rig.Stall):
			return types.Errorf(types.Internal, "latency: %d of %d tasks are bound after %s", len(l.bound), len(l.h.Tasks), rig.Stall)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	err := g.Wait()
	if errors.Is(err, context.Canceled) && len(l.bound) == len(l.h.Tasks) {
		return nil
	}
	return err
}

// poisson calls do n times at random moments, per times a second on average, without waiting for
// the end of one before the next.
func poisson(ctx context.Context, seed uint64, per, n int, do func(i int) error) error {
	rng := rand.New(rand.NewPCG(seed, seed))
	g, ctx := errgroup.WithContext(ctx)
	at := time.Now()
	for i := range n {
		at = at.Add(time.Duration(rng.ExpFloat64() / float64(per) * float64(time.Second)))
		if err := rig.Sleep(ctx, time.Until(at)); err != nil {
			return errors.Join(err, g.Wait())
		}
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}

// submit submits a task.
func (l *latency) submit(ctx context.Context, i int) error {
	id := rig.TaskName(i)
	began := time.Now()
	l.mu.Lock()
	l.submitted[id] = began
	l.mu.Unlock()
	_, err := l.client.Launch(ctx, controlplane.Submission{
		ID: id, Task: types.Task{Name: "bench", Requests: l.h.Shapes[l.h.Tasks[i]]}, Spec: &types.Spec{Image: "escher.local/bench:latest"},
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.launches = append(l.launches, time.Since(began))
	return err
}

// put makes one put of the size of a task.
func (l *latency) put(ctx context.Context, i int) error {
	x := controlplane.NewChange(controlplane.NewBatch())
	x.Put(fmt.Sprintf("%sput/%d", rig.FloorRoot, i), l.h.Task(i))
	began := time.Now()
	_, err := l.c.Store.Commit(ctx, x.Txn())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.puts = append(l.puts, time.Since(began))
	return err
}

// watch records when the client sees that a task is bound.
func (l *latency) watch(ctx context.Context, synced chan struct{}) error {
	return l.client.Watch(ctx, controlplane.WatchTasks{}, func(u controlplane.StatusUpdate) error {
		now := time.Now()
		if u.Synced {
			close(synced)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, s := range u.Changes {
			if _, known := l.bound[s.ID]; known || s.Status == nil || s.Status.Phase != types.Bound {
				continue
			}
			if l.bound[s.ID] = now; len(l.bound) == len(l.h.Tasks) {
				close(l.all)
			}
		}
		return nil
	})
}

// tell adds the figures.
func (l *latency) tell(found rig.Figures) {
	var bound rig.Durations
	for id, at := range l.bound {
		bound = append(bound, at.Sub(l.submitted[id]))
	}
	found["bound_p50_ms"], found["bound_p99_ms"] = bound.Quantile(0.5), bound.Quantile(0.99)
	found["put_p50_ms"], found["put_p99_ms"] = l.puts.Quantile(0.5), l.puts.Quantile(0.99)
	found["launch_p50_ms"] = l.launches.Quantile(0.5)
}
