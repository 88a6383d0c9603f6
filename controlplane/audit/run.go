package audit

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
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
func Run(ctx context.Context, store controlplane.Store) (Report, error) {
	errRead := errors.New("read")
	c, report := NewChecker(), Report{}
	err := controlplane.ListWatch(ctx, store, controlplane.ListWatchOptions{Prefix: controlplane.Root}, func(u controlplane.Update) error {
		report.Revision, report.Keys = u.Revision, len(u.Events)
		report.Findings = append([]Finding{}, c.Load(u.Events, u.Revision)...) // in JSON, none is []
		return errRead
	})
	if !errors.Is(err, errRead) {
		return Report{}, err
	}
	for _, n := range c.s.nodes {
		if n.info.V != nil {
			report.Nodes++
		}
		report.Bindings += len(n.bindings)
	}
	report.Tasks = len(c.s.tasks)
	return report, nil
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
