package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
)

// A Report is the result of an audit.
type Report struct {
	// Revision is the audited revision.
	Revision int64 `json:"revision"`
	// Keys, Nodes, Tasks and Bindings count the audited objects.
	Keys     int `json:"keys"`
	Nodes    int `json:"nodes"`
	Tasks    int `json:"tasks"`
	Bindings int `json:"bindings"`
	// Findings are the violations; usually there are none.
	Findings []Finding `json:"findings"`
}

// Run audits a cluster at one revision. It retries until the store can be read or ctx is done.
//
// A component may have unfinished work, such as the collector with ownerless objects. Then Run
// reads again until the work is done, for at most half a minute, and reports the rest as
// NothingLeft and Progress. It calls each of waits with the unfinished work before each wait.
func Run(ctx context.Context, store controlplane.Store, waits ...func(left []Finding)) (Report, error) {
	report, left, err := readOnce(ctx, store)
	for _, wait := range rereadDelays() {
		if err != nil || len(left) == 0 {
			break
		}
		for _, told := range waits {
			told(left)
		}
		if err = supervise.Pause(ctx, wait); err != nil {
			err = fmt.Errorf("audit: wait for unfinished work: %s: %w", left[0], err)
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

// rereadDelays returns the waits between reads. The collector runs about once a second, and a new
// leader takes over within the leader's time to live.
func rereadDelays() []time.Duration {
	const ms = time.Millisecond
	return []time.Duration{500 * ms, 1000 * ms, 1500 * ms, 2000 * ms, 3000 * ms, 4000 * ms, 6000 * ms, 6000 * ms, 6000 * ms}
}

// stillLeft returns the part of an earlier list that is still left.
func stillLeft(ctx context.Context, store controlplane.Store, before []Finding) ([]Finding, error) {
	_, now, err := readOnce(ctx, store)
	return Still(before, now), err
}

// readOnce audits the cluster once, and also returns the components' unfinished work.
func readOnce(ctx context.Context, store controlplane.Store) (Report, []Finding, error) {
	errRead := errors.New("read")
	c, report := newLeaseChecker(), Report{}
	err := controlplane.ListWatch(ctx, store, controlplane.ListWatchOptions{Prefix: controlplane.Root}, func(u controlplane.Update) error {
		report.Revision, report.Keys = u.Revision, len(u.Events)
		report.Findings = append([]Finding{}, c.Load(u.Events, u.Revision)...) // encodes to [] when empty
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

// Follow audits a cluster, and then every revision, until ctx is done or handle returns an error,
// which it returns. It calls handle for each audited revision with the new findings, and now and
// then for a revision without changes. log receives a line when the watch is lost; nil disables
// logging.
//
// After a gap in the history it audits the state again, but not the changes in the gap.
func Follow(ctx context.Context, store controlplane.Store, log *zap.Logger, handle func(revision int64, found []Finding) error) error {
	c := newLeaseChecker()
	opts := controlplane.ListWatchOptions{Prefix: controlplane.Root, Log: log}
	return controlplane.ListWatch(ctx, store, opts, func(u controlplane.Update) error {
		if u.Synced {
			return handle(u.Revision, c.Load(u.Events, u.Revision))
		}
		return handle(u.Revision, c.Apply(controlplane.Batch{Revision: u.Revision, Events: u.Events}))
	})
}
