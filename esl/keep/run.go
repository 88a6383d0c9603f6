package keep

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/collect"
	"github.com/escher-sched/escher/esl/decisions"
	"github.com/escher-sched/escher/types"
)

// Options say which policies to run, and how.
type Options struct {
	// Kinds are the known policies; other programs run the rest.
	Kinds esl.Kinds
	// Namespace selects the policies of one namespace; empty means all.
	Namespace string
	// Session selects the policies that name it; empty means those that name no session.
	Session string
	// Collect also runs the collections over time of all namespaces; nil runs none.
	Collect *collect.Config
	// Measure asks nodes for what they measure, as long as policies want that; nil means that nothing is
	// known.
	Measure Measure
	// Guard is a condition of every commit, such as the key of a leader.
	Guard controlplane.ReadSet
	// Beat is called whenever the loop runs, and with heard whenever the store was heard from; nil
	// means no call.
	Beat func(heard bool)
	// Log is the logger; nil means none.
	Log *zap.Logger
	// Decisions gets each decision of the policies; nil means that none is kept.
	Decisions *decisions.Log
}

const (
	// keepGap is the least time between two rounds of calls after a long round, and keepSoon after a
	// short one: one round handles all changes meanwhile.
	keepGap  = 20 * time.Millisecond
	keepSoon = 2 * time.Millisecond
	// keepRound is about how long a round of calls takes at most: changes are applied between rounds.
	keepRound = 50 * time.Millisecond
	// keepBeat is the longest time between two runs of the loop.
	keepBeat = 5 * time.Second
	// keepAtOnce bounds the plans being committed. One that takes what others might decide about counts
	// as keepTaking: too many such plans would be made from one view.
	keepAtOnce = 128
	keepTaking = 8
	// keepIdle is how long the cluster is followed without a policy to run.
	keepIdle = 30 * time.Second
)

// errIdle says that there are no policies to run, errThere that there are some.
var (
	errIdle  = errors.New("there is nothing to keep")
	errThere = errors.New("there is something to keep")
)

// Run runs policies until ctx is done, and then returns ctx.Err(). It follows the cluster, calls
// each policy, and commits its plan. All of its state is in the store: it may end at any moment,
// and another one goes on; two at a time do no harm. While the store is unreachable it waits. While
// there are no policies to run, and nothing may collect, it follows only the keys that say so.
func Run(ctx context.Context, store controlplane.Store, opts Options) error {
	if opts.Log == nil {
		opts.Log = zap.NewNop()
	}
	if opts.Beat == nil {
		opts.Beat = func(bool) {}
	}
	var ended map[string]int64
	for {
		if err := opts.await(ctx, store, ended); !errors.Is(err, errThere) {
			return err
		}
		k := newLoop(store, opts)
		if err := k.run(ctx); !errors.Is(err, errIdle) {
			return err
		}
		ended = k.collections.ended(k.view)
	}
}

// await returns errThere as soon as there is a policy to run, or something may collect. Of ended
// tasks, given by key and revision, nothing does.
func (o *Options) await(ctx context.Context, store controlplane.Store, ended map[string]int64) error {
	prefixes := []string{controlplane.Prefix(controlplane.Policies)}
	switch {
	case o.Namespace != "":
		prefixes[0] = controlplane.Prefix(controlplane.Policies, o.Namespace)
	case o.Collect != nil:
		prefixes = append(prefixes, controlplane.Prefix(controlplane.Tasks), controlplane.Prefix(controlplane.Reservations))
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
	for _, prefix := range prefixes {
		watch := controlplane.ListWatchOptions{Prefix: prefix, Parts: true, Log: o.Log, Heard: func() { o.Beat(true) }}
		g.Go(func() error {
			return controlplane.ListWatch(ctx, store, watch, func(u controlplane.Update) error {
				for _, e := range u.Events {
					if !e.Delete && ended[e.Key] != e.ModRevision && o.concerns(e) {
						return errThere
					}
				}
				return nil
			})
		})
	}
	return g.Wait()
}

// concerns reports whether an event has a policy to run, or something that may collect.
func (o *Options) concerns(e controlplane.Event) bool {
	at, ok := controlplane.Parse(e.Key)
	switch {
	case !ok:
		return false
	case at.Kind == controlplane.Policies:
		var p types.Policies
		return types.Decode(e.Value, &p) == nil && o.manages(at.Namespace, &p)
	}
	return collect.May(at, e.Value)
}

// mine reports whether this program is responsible for policies.
func (o *Options) mine(ns string, p *types.Policies) bool {
	return p.Session == o.Session && (o.Namespace == "" || o.Namespace == ns)
}

// manages reports whether one of the policies has a Controller that runs here.
func (o *Options) manages(ns string, p *types.Policies) bool {
	if !o.mine(ns, p) {
		return false
	}
	for _, one := range p.Policies {
		if f := o.Kinds.Of(one.Kind); f != nil {
			if _, ok := f().(esl.Controller); ok {
				return true
			}
		}
	}
	return false
}
