package rig

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"runtime/pprof"
	"sync/atomic"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/collect"
	"github.com/escher-sched/escher/esl/keep"
	"github.com/escher-sched/escher/examples/framespace/gangs"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/scheduler/search"
	"github.com/escher-sched/escher/types"
)

// RunRole runs a part of a measured cluster, until ctx is done or its input ends. So it ends with
// its parent process, however that ends. more are the parts beyond those that rig has.
func RunRole(ctx context.Context, role string, in io.Reader, out io.Writer, more Parts) error {
	lines := bufio.NewScanner(in)
	var cfg RoleConfig
	if !lines.Scan() {
		return types.Errorf(types.Invalid, "%s: there is no configuration: this command is for escher bench to call", RoleCommand)
	}
	if err := json.Unmarshal(lines.Bytes(), &cfg); err != nil {
		return types.Errorf(types.Invalid, "%s: configuration: %w", RoleCommand, err)
	}
	p, err := newPart(role, cfg, more)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	say := json.NewEncoder(out)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer cancel()
		err := p.Run(ctx, func(endpoint string) {
			_ = say.Encode(reply{Ready: true, Endpoint: endpoint}) // the reader may be gone
		})
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
	g.Go(func() error {
		_ = server.CollectGarbage(ctx) // like every server; its error is that ctx is done
		return nil
	})
	// The reader of the input may never return: it ends with the process.
	go func() {
		defer cancel()
		obey(lines, say, p)
	}()
	return g.Wait()
}

// newPart makes the part of a name.
func newPart(role string, cfg RoleConfig, more Parts) (Part, error) {
	switch role {
	case RoleEtcd:
		return Part{Stats: etcdStats, Run: func(ctx context.Context, ready func(string)) error {
			etcd, err := server.New(server.Config{Dir: cfg.Dir, MaxTxnOps: cfg.Ops, Ready: ready})
			if err != nil {
				return err
			}
			return etcd.Run(ctx)
		}}, nil
	case RoleScheduler:
		return schedulerPart(cfg), nil
	case RoleFramespace:
		cfg.Name = RoleScheduler
		return schedulerPart(cfg, func(ctx context.Context, store controlplane.Store) error {
			return gangs.Run(ctx, store, zap.NewNop())
		}), nil
	case RoleKeeper:
		return keeperPart(cfg), nil
	case roleCollector:
		return collectorPart(cfg), nil
	case roleGateway:
		return gatewayPart(cfg), nil
	}
	if make := more[role]; make != nil {
		return make(cfg), nil
	}
	return Part{}, types.Errorf(types.Invalid, "%s: %q is unknown: this command is for escher bench to call", RoleCommand, role)
}

// schedulerPart is a scheduler, and custom ones next to it; it is ready when each has listed
// everything.
func schedulerPart(cfg RoleConfig, custom ...func(context.Context, controlplane.Store) error) Part {
	counted := newCounted()
	all := append(custom, func(ctx context.Context, store controlplane.Store) error {
		// The tasks of a fleet fit into it where they are spread.
		return scheduler.Run(ctx, store, scheduler.Config{Name: cfg.Name, Shared: cfg.Shared, Placement: search.Spread, Metrics: counted.metrics}, zap.NewNop())
	})
	return Part{Stats: counted.stats, Run: func(ctx context.Context, ready func(string)) error {
		return cfg.WithStore(ctx, func(store *etcdstore.Store) error {
			var listed atomic.Int32
			g, ctx := errgroup.WithContext(ctx)
			for _, run := range all {
				g.Go(func() error {
					return run(ctx, &notedStore{Store: store, counted: counted, synced: func() {
						if int(listed.Add(1)) == len(all) {
							ready("")
						}
					}})
				})
			}
			return g.Wait()
		})
	}}
}

// keeperPart runs the policies of the library.
func keeperPart(cfg RoleConfig) Part {
	return Part{Run: func(ctx context.Context, ready func(string)) error {
		return cfg.WithStore(ctx, func(store *etcdstore.Store) error {
			ready("")
			return keep.Run(ctx, store, keep.Options{Kinds: builtin.Kinds(), Collect: &collect.Config{}})
		})
	}}
}

// collectorPart is a collector, with compaction.
func collectorPart(cfg RoleConfig) Part {
	return Part{Run: func(ctx context.Context, ready func(string)) error {
		return cfg.WithStore(ctx, func(store *etcdstore.Store) error {
			policy := server.DefaultPolicy()
			if cfg.Policy != nil {
				policy = *cfg.Policy
			}
			c, err := server.NewCollector(store, server.NewMaintenance(store.Client(), 0), policy, nil, server.Options{})
			if err != nil {
				return err
			}
			ready("")
			return c.Run(ctx)
		})
	}}
}

// obey follows orders, line by line, until the input ends.
func obey(lines *bufio.Scanner, say *json.Encoder, p Part) {
	var profile *os.File
	for lines.Scan() {
		var o order
		var r reply
		err := json.Unmarshal(lines.Bytes(), &o)
		switch {
		case err != nil:
		case o.Do == doProfile:
			profile, err = beginProfile(o.Path)
		case o.Do == doEnd && profile != nil:
			pprof.StopCPUProfile()
			err = profile.Close()
			profile = nil
		case o.Do == doStats && p.Stats != nil:
			r.Stats = p.Stats()
		}
		if err != nil {
			r.Error = err.Error()
		}
		if say.Encode(r) != nil {
			return
		}
	}
}
