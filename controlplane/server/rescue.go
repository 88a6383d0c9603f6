package server

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// rescueEvery is how often a server checks whether the database is full.
const rescueEvery = 5 * time.Second

// repeatFull is how often the log repeats that the database is full.
const repeatFull = 10 * time.Minute

// Rescue frees a full database while no collector leads. A role needs a lease, and a full store
// grants none. So each server collects without the role, under a guard that holds until a collector
// leads. All deletions are conditional, so several servers may collect at once.
type Rescue struct {
	Store       controlplane.Store
	Maintenance controlplane.Maintenance
	// Role is the role of the collector. Empty means that this process always collects; Rescue then
	// only warns about a full database.
	Role string
	// Collect collects until ctx is done. Conflict: the guard no longer holds.
	Collect func(ctx context.Context, guard []controlplane.Compare) error
	// Metrics may be nil.
	Metrics *Metrics
	Log     *zap.Logger

	warning atomic.Pointer[string]
	logged  time.Time
}

// Warning returns the problem of the database and its remedy; empty if there is none.
func (r *Rescue) Warning() string {
	if text := r.warning.Load(); text != nil {
		return *text
	}
	return ""
}

// Run runs until ctx is done, and then returns ctx.Err(). Other errors are those of Collect.
func (r *Rescue) Run(ctx context.Context) error {
	tick := time.NewTicker(rescueEvery)
	defer tick.Stop()
	for {
		if needed, err := r.check(ctx); needed && err == nil {
			if err := r.collect(ctx, tick.C); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// collect collects until a collector leads or the store accepts writes again.
func (r *Rescue) collect(ctx context.Context, tick <-chan time.Time) error {
	r.Log.Warn("collecting without the role: a full database grants it to no server")
	during, stop := context.WithCancel(ctx)
	defer stop()
	guard := []controlplane.Compare{created(controlplane.LeaderKey(r.Role), 0)}
	ended := make(chan error, 1)
	go func() {
		ended <- supervise.Contain(func() error { return r.Collect(during, guard) })
	}()
	for {
		select {
		case err := <-ended:
			if during.Err() != nil || types.Is(err, types.Conflict) {
				return ctx.Err()
			}
			return err
		case <-tick:
			// A member under defragmentation does not answer: keep collecting.
			if needed, err := r.check(ctx); err == nil && !needed {
				stop()
			}
		}
	}
}

// check reports whether the database is full and no collector leads.
func (r *Rescue) check(ctx context.Context) (bool, error) {
	usage, err := r.Maintenance.Usage(ctx)
	if err != nil {
		return false, err
	}
	r.Metrics.full(usage)
	if !usage.Alarm {
		if r.Warning() != "" {
			r.warning.Store(new(string))
			r.logged = time.Time{}
			r.Log.Info("the database accepts writes again")
		}
		return false, nil
	}
	text, err := r.describe(ctx, usage)
	if err != nil {
		return false, err
	}
	r.warning.Store(&text)
	if now := time.Now(); now.Sub(r.logged) >= repeatFull {
		r.logged = now
		r.Log.Error("the database is full", zap.String("reason", text))
	}
	if r.Role == "" {
		return false, nil
	}
	page, err := r.Store.List(ctx, controlplane.ListOptions{Key: controlplane.LeaderKey(r.Role), KeysOnly: true})
	return err == nil && len(page.KVs) == 0, err
}

// describe describes the full database, and the remedy if a person has to act.
func (r *Rescue) describe(ctx context.Context, usage controlplane.Usage) (string, error) {
	text := fmt.Sprintf("etcd refuses writes: its database takes %s of its quota of %s; servers delete ended tasks and free the rest by themselves",
		size(usage.File), size(usage.Quota))
	foreign, err := r.foreign(ctx)
	switch {
	case err != nil:
		return "", err
	case foreign != "":
		text += fmt.Sprintf("; they never delete foreign keys such as %q: delete them (etcdctl del --prefix), or start etcd with a larger --quota-backend-bytes", foreign)
	default:
		text += "; if that does not help, stop tasks, or start etcd with a larger --quota-backend-bytes"
	}
	return text, nil
}

// foreign returns a foreign key, empty if there is none.
func (r *Rescue) foreign(ctx context.Context) (string, error) {
	// The second listing begins after all keys of Escher.
	for _, after := range [...]string{"", strings.TrimSuffix(controlplane.Root, "/") + "0"} {
		page, err := r.Store.List(ctx, controlplane.ListOptions{After: after, Limit: 1, KeysOnly: true})
		if err != nil {
			return "", err
		}
		if len(page.KVs) > 0 && !strings.HasPrefix(page.KVs[0].Key, controlplane.Root) {
			return page.KVs[0].Key, nil
		}
	}
	return "", nil
}
