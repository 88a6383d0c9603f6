package bench

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

// bind measures how many tasks a second the scheduler binds durably, from the
// moment they become visible until a watcher of its own has seen the last binding.
func bind(ctx context.Context, store controlplane.Store, cfg Config, r *round) error {
	if err := load(ctx, store, cfg); err != nil {
		return err
	}
	timed := &timedStore{Store: store, synced: make(chan struct{})}
	running, stop := context.WithCancel(ctx)
	defer stop()
	g, running := errgroup.WithContext(running)
	g.Go(func() error {
		return scheduler.Run(running, timed, scheduler.Config{Name: "bench"}, cfg.Log)
	})
	g.Go(func() error {
		defer stop()
		took, err := timeBinds(running, timed, cfg)
		r.value = float64(cfg.Tasks) / took.Seconds()
		return err
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	r.commits = timed.commits
	report, err := audit.Run(ctx, store)
	r.violations = len(report.Findings)
	return err
}

// timeBinds makes the tasks visible and waits until all are bound.
func timeBinds(ctx context.Context, timed *timedStore, cfg Config) (time.Duration, error) {
	select {
	case <-timed.synced:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	page, err := timed.List(ctx, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Jobs)})
	if err != nil {
		return 0, err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	events := timed.Store.Watch(watching, controlplane.WatchOptions{Prefix: controlplane.Prefix(controlplane.Bindings), From: page.Revision + 1})
	start := time.Now()
	c := controlplane.NewChange(controlplane.NewBatch())
	c.Put(controlplane.JobKey(ns, "bench"), &types.Job{Name: "bench", Tasks: cfg.Tasks, Submitted: start.UnixNano()})
	if _, err := controlplane.Commit(ctx, timed.Store, c.Txn()); err != nil {
		return 0, err
	}
	seen := 0
	for b := range events {
		if b.Err != nil {
			return 0, b.Err
		}
		if seen += len(b.Events); seen >= cfg.Tasks {
			return time.Since(start), nil
		}
	}
	return 0, ctx.Err()
}

// timedStore notes how long commits of bindings take, and when the scheduler has
// listed everything and begins to watch.
type timedStore struct {
	controlplane.Store
	synced chan struct{}
	once   sync.Once

	mu      sync.Mutex
	commits []time.Duration
}

// Commit commits, and notes how long that took.
func (s *timedStore) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	start := time.Now()
	res, err := s.Store.Commit(ctx, txn)
	if len(txn.Ops) > 0 && strings.HasPrefix(txn.Ops[0].Key, controlplane.Prefix(controlplane.Bindings)) {
		s.mu.Lock()
		s.commits = append(s.commits, time.Since(start))
		s.mu.Unlock()
	}
	return res, err
}

// Watch watches, and notes that the listing is done.
func (s *timedStore) Watch(ctx context.Context, opts controlplane.WatchOptions) <-chan controlplane.Batch {
	s.once.Do(func() { close(s.synced) })
	return s.Store.Watch(ctx, opts)
}
