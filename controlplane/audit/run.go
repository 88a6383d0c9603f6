package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
)

// Report is what an audit of a cluster found.
type Report struct {
	// Revision is the one that was read.
	Revision int64 `json:"revision"`
	// Keys, Nodes, Tasks and Bindings are how many were looked at.
	Keys     int `json:"keys"`
	Nodes    int `json:"nodes"`
	Tasks    int `json:"tasks"`
	Bindings int `json:"bindings"`
	// Findings are what is wrong; none is the rule.
	Findings []Finding `json:"findings"`
}

// Run checks a cluster as it is at one revision. It tries until the store can be
// read or ctx is done.
//
// A component may be about to do what is not done yet, such as the collector that deletes
// what lost its owner. Then Run reads again until that is done, for half a minute at most, and
// reports the rest as NothingLeft and Progress. Each of waits is called with it each time.
func Run(ctx context.Context, store controlplane.Store, waits ...func(left []Finding)) (Report, error) {
	report, left, err := look(ctx, store)
	for _, wait := range looksAgain() {
		if err != nil || len(left) == 0 {
			break
		}
		for _, told := range waits {
			told(left)
		}
		if err = supervise.Pause(ctx, wait); err != nil {
			err = fmt.Errorf("audit: wait until a component does what it has to: %s: %w", left[0], err)
			break
		}
		left, err = stillLeft(ctx, store, left)
	}
	if err != nil {
		return Report{}, err
	}
	report.Findings = append(report.Findings, left...)
	return report, nil
}

// looksAgain is how long it waits for the collector: it looks about once a second, and one
// that takes over from another that died does so within the time that a leader has.
func looksAgain() []time.Duration {
	const ms = time.Millisecond
	return []time.Duration{500 * ms, 1000 * ms, 1500 * ms, 2000 * ms, 3000 * ms, 4000 * ms, 6000 * ms, 6000 * ms, 6000 * ms}
}

// stillLeft returns what was left before, and is now.
func stillLeft(ctx context.Context, store controlplane.Store, before []Finding) ([]Finding, error) {
	_, now, err := look(ctx, store)
	return slices.DeleteFunc(before, func(f Finding) bool { return same(now, f) == nil }), err
}

// look reads the cluster once, and returns also what a component has still to do.
func look(ctx context.Context, store controlplane.Store) (Report, []Finding, error) {
	errRead := errors.New("read")
	c, report := NewChecker(), Report{}
	err := controlplane.ListWatch(ctx, store, controlplane.ListWatchOptions{Prefix: controlplane.Root}, func(u controlplane.Update) error {
		report.Revision, report.Keys = u.Revision, len(u.Events)
		report.Findings = append([]Finding{}, c.Load(u.Events, u.Revision)...) // in JSON, none is []
		return errRead
	})
	if !errors.Is(err, errRead) {
		return Report{}, nil, err
	}
	for _, n := range c.s.nodes {
		if n.info.V != nil {
			report.Nodes++
		}
		report.Bindings += len(n.bindings)
	}
	report.Tasks = len(c.s.tasks)
	return report, sorted(append(c.Left(), c.Stuck()...)), nil
}

// Follow checks a cluster as it is, and then at every revision, until ctx is done or
// handle returns an error, which it returns. handle is told each revision that was
// checked, with what is found there and was not before; a revision at which nothing
// changed is told now and then. log is told when the watch is lost; nil is nobody.
//
// After a time for which there is no history any more, the state is checked again,
// not what happened.
func Follow(ctx context.Context, store controlplane.Store, log *zap.Logger, handle func(revision int64, found []Finding) error) error {
	c := NewChecker()
	opts := controlplane.ListWatchOptions{Prefix: controlplane.Root, Log: log}
	return controlplane.ListWatch(ctx, store, opts, func(u controlplane.Update) error {
		if u.Synced {
			return handle(u.Revision, c.Load(u.Events, u.Revision))
		}
		return handle(u.Revision, c.Apply(controlplane.Batch{Revision: u.Revision, Events: u.Events}))
	})
}
