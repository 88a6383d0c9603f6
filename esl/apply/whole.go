package apply

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// wholeUpdate refuses an update that does not fit tasks that are replaced together.
func wholeUpdate(c *Change, wanted []controlplane.Submission) error {
	u := c.doc.Job.Update
	switch {
	case u == nil || !c.wholly(wanted):
		return nil
	case u.Order == manifest.StartFirst:
		return types.Errorf(types.Invalid, "update.order: %s: %s", u.Order, together)
	case u.AtOnce > 0:
		return types.Errorf(types.Invalid, "update.atOnce: %d: %s", u.AtOnce, together)
	}
	return nil
}

const together = "the tasks of a job with peers, or with policies that are not of placement alone, are replaced together, stop-first: leave it out"

// wholly reports whether the tasks of a job are always replaced together: those with policies, and
// those that know their peers.
func (c *Change) wholly(wanted []controlplane.Submission) bool {
	peers := func(s controlplane.Submission) bool { return s.Spec.Peers != types.NoPeers }
	return !c.oneByOne() || slices.ContainsFunc(wanted, peers)
}

// Override makes the fields of u that are not zero count in place of those of the updates of jobs. It
// gives an update to jobs without one. Invalid: they do not fit one of the jobs; the error names the
// field as flags do.
func Override(docs []manifest.Document, u manifest.Update, now time.Time) error {
	jobs := 0
	for i := range docs {
		j := docs[i].Job
		if j == nil {
			continue
		}
		jobs++
		if err := fits(&docs[i], u, now); err != nil {
			return err
		}
		var is manifest.Update
		if j.Update != nil {
			is = *j.Update
		}
		is.AtOnce, is.Order, is.Healthy = cmp.Or(u.AtOnce, is.AtOnce), cmp.Or(u.Order, is.Order), cmp.Or(u.Healthy, is.Healthy)
		j.Update = &is
	}
	if jobs == 0 {
		return types.Errorf(types.Invalid, "%s: there is no job in the file: leave it out", overridden(u))
	}
	return nil
}

// fits refuses an update from flags for a job that is replaced in no such way.
func fits(doc *manifest.Document, u manifest.Update, now time.Time) error {
	if doc.Job.Array != nil {
		return types.Errorf(types.Invalid, "%s: %s is an array, which only gets further indices: leave it out", overridden(u), doc)
	}
	if u.AtOnce == 0 && u.Order != manifest.StartFirst {
		return nil
	}
	c, err := newChange(doc)
	if err != nil {
		return fmt.Errorf("%s: %w", doc, err)
	}
	subs, err := doc.Job.Submissions(now)
	if err != nil {
		return fmt.Errorf("%s: %w", doc, err)
	}
	if c.wholly(subs) {
		return types.Errorf(types.Invalid, "%s: %s: %s", overridden(u), doc, together)
	}
	return nil
}

// overridden names the first field that is set, as flags do.
func overridden(u manifest.Update) string {
	switch {
	case u.AtOnce > 0:
		return "at-once"
	case u.Order != "":
		return "order"
	}
	return "healthy"
}

// oneByOne reports whether the policies of the job, if any, let its tasks be replaced one by one.
func (c *Change) oneByOne() bool {
	return !slices.ContainsFunc(c.policies, func(p esl.Policy) bool { return !esl.Describe(p).OneByOne })
}

// whole reports whether the change replaces a whole job by an update: its tasks end before their
// successors start.
func (c *Change) whole() bool {
	return c.Action == Replace && c.doc.Job != nil && c.doc.Job.Update != nil
}

// stopFirst stops the tasks of jobs that are replaced as a whole, and waits until they have ended. A
// job that was stopped does not count: so another apply goes on with the launch.
func (d *Decision) stopFirst(ctx context.Context, c *controlplane.Client) error {
	for i := range d.Changes {
		x := &d.Changes[i]
		if !x.whole() {
			continue
		}
		var ids []string
		const each = 2
		for part := range slices.Chunk(x.stop, max(1, c.Store().Limits().Ops/each-len(d.reads))) {
			tx := c.Begin(d.reads)
			for _, s := range part {
				tx.Stop(s.id, s.options())
				ids = append(ids, s.id)
			}
			if _, err := tx.Commit(ctx); err != nil {
				return err
			}
		}
		if err := x.wait(ctx, c, controlplane.UntilEnded, ids); err != nil {
			return types.Errorf(types.ClassOf(err), "update %s: its tasks were stopped, and nothing was launched: %w: apply the file again to go on", x, err)
		}
		x.stop = nil
	}
	return nil
}

// healthyAfter waits until the tasks of jobs that were replaced as a whole are healthy.
func (d *Decision) healthyAfter(ctx context.Context, c *controlplane.Client) error {
	for i := range d.Changes {
		x := &d.Changes[i]
		if !x.whole() {
			continue
		}
		if err := x.wait(ctx, c, controlplane.UntilHealthy, x.launched); err != nil {
			return types.Errorf(types.ClassOf(err), "update %s: %s was launched, and the former one is stopped: %w: "+
				"to go on, change the file and apply it; to go back, apply the former file", x, x.ID, err)
		}
	}
	return nil
}

// wait waits until tasks have reached a phase. Precondition: they do not in the time of the update,
// or have ended without success.
func (c *Change) wait(ctx context.Context, client *controlplane.Client, until controlplane.Until, ids []string) error {
	timeout := time.Duration(c.doc.Job.Update.WithDefaults().Timeout)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, err := client.Wait(limited, until, ids...)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return types.Errorf(types.Precondition, "%d of its %d tasks are not ready after %s: %s", len(ids)-len(found), len(ids), timeout, action.Explain.Of(c.ID))
	}
	if err != nil || until == controlplane.UntilEnded {
		return err
	}
	for _, id := range ids {
		if s := found[id]; s.Phase == types.Failed || s.Phase == types.Cancelled {
			m := &member{id: id, status: &s}
			return types.Errorf(types.Precondition, "task %s %s: %s", id, m.text(), action.ShowOutput.Of(id))
		}
	}
	return nil
}
