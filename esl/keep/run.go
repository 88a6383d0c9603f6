package keep

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// Options say which policies are kept, and how.
type Options struct {
	// Kinds are the policies that are known; others are left to whoever knows them.
	Kinds esl.Kinds
	// Namespace is whose policies are kept; empty: everybody's.
	Namespace string
	// Session is whose policies are kept: those that name it; empty: those that name
	// none.
	Session string
	// Guard is what every change is conditional on, such as the key of a leader.
	Guard controlplane.ReadSet
	// Beat is called whenever the loop runs, and with true when it has heard from the
	// store instead; nil is nobody.
	Beat func(heard bool)
	// Log is told what is done; nil is nobody.
	Log *zap.Logger
}

const (
	// keepGap is the least time between two looks: what changes meanwhile is looked at
	// once.
	keepGap = 20 * time.Millisecond
	// keepBeat is how often the loop runs at least.
	keepBeat = 5 * time.Second
	// keepAtOnce bounds the plans that are being done.
	keepAtOnce = 16
	// keepIdle is how long the cluster is followed with nothing to keep.
	keepIdle = 30 * time.Second
)

// errIdle tells that there is nothing to keep any more, errThere that there is something.
var (
	errIdle  = errors.New("there is nothing to keep")
	errThere = errors.New("there is something to keep")
)

// Run keeps policies until ctx is done, and returns ctx.Err() then: it follows the
// cluster, asks each policy what is to be done, and does it. Nothing is known to it that
// is not in the store: it may end at any moment, and another one goes on; two at a time
// do no harm. While the store is away it waits. While there is nothing to keep, it
// follows the names of policies alone.
func Run(ctx context.Context, store controlplane.Store, opts Options) error {
	if opts.Log == nil {
		opts.Log = zap.NewNop()
	}
	if opts.Beat == nil {
		opts.Beat = func(bool) {}
	}
	for {
		if err := opts.await(ctx, store); !errors.Is(err, errThere) {
			return err
		}
		if err := newLoop(store, opts).run(ctx); !errors.Is(err, errIdle) {
			return err
		}
	}
}

// await returns errThere as soon as there is something to keep.
func (o *Options) await(ctx context.Context, store controlplane.Store) error {
	prefix := controlplane.Prefix(controlplane.Policies)
	if o.Namespace != "" {
		prefix = controlplane.Prefix(controlplane.Policies, o.Namespace)
	}
	g, ctx := supervise.WithContext(ctx)
	g.Go(func() error {
		beat := time.NewTicker(keepBeat)
		defer beat.Stop()
		for {
			o.Beat(false)
			select {
			case <-beat.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	watch := controlplane.ListWatchOptions{Prefix: prefix, Log: o.Log, Heard: func() { o.Beat(true) }}
	g.Go(func() error {
		return controlplane.ListWatch(ctx, store, watch, func(u controlplane.Update) error {
			for _, e := range u.Events {
				var p types.Policies
				at, ok := controlplane.Parse(e.Key)
				if ok && !e.Delete && types.Decode(e.Value, &p) == nil && o.manages(at.Namespace, &p) {
					return errThere
				}
			}
			return nil
		})
	})
	return g.Wait()
}

// mine reports whether policies are among those that are kept.
func (o *Options) mine(ns string, p *types.Policies) bool {
	return p.Session == o.Session && (o.Namespace == "" || o.Namespace == ns)
}

// manages reports whether there is something to do for policies while they last.
func (o *Options) manages(ns string, p *types.Policies) bool {
	if !o.mine(ns, p) {
		return false
	}
	for _, one := range p.Policies {
		if f := o.Kinds[one.Kind]; f != nil {
			if _, ok := f().(esl.Controller); ok {
				return true
			}
		}
	}
	return false
}
