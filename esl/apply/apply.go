// Package apply makes a cluster match documents: it leaves equal objects alone and creates missing
// ones. Decide compares, and is pure. Perform makes the changes, in one conditional transaction if
// they fit one.
package apply

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// Action is the change for a document.
type Action string

// The actions.
const (
	// Launch: it does not exist.
	Launch Action = "launch"
	// Unchanged: it exists as described.
	Unchanged Action = "unchanged"
	// Replace: a different one with its name exists, and is stopped.
	Replace Action = "replace"
	// Update: the job stays, and some of its tasks are replaced, added or removed.
	Update Action = "update"
	// Relabel: it exists as described, but for its labels, which are changed.
	Relabel Action = "relabel"
	// Set: set the resource, the namespace or the right.
	Set Action = "set"
	// Reserve: create the reservation.
	Reserve Action = "reserve"
	// Declare: declare or change the shared policy.
	Declare Action = "declare"
)

// Options restrict the changes.
type Options struct {
	// Replace allows stopping waiting and running objects that differ.
	Replace bool
	// If is the condition of all changes; the zero value means no condition.
	If Condition
	// Rights gives rights; the zero value means that documents with rights are refused.
	Rights Rights
}

// Change is the change for one document.
type Change struct {
	Kind   manifest.Kind `json:"kind"`
	Name   string        `json:"name,omitempty"`
	Action Action        `json:"action"`
	// ID is the id of the existing or launched object.
	ID string `json:"id,omitempty"`
	// Tasks is the number of tasks to launch.
	Tasks int `json:"tasks,omitempty"`
	// Note is the phase of the existing object.
	Note string `json:"note,omitempty"`
	// Stops are the ids of tasks or jobs to stop for it.
	Stops []string `json:"stops,omitempty"`
	// Differences are the differing fields: "spec.image: a → b".
	Differences []string `json:"differences,omitempty"`
	// Blocked is the reason against the change; empty if there is none.
	Blocked types.Text `json:"blocked,omitzero"`

	// InPlace is the change of a job that stays; nil for any other.
	InPlace *InPlace `json:"inPlace,omitempty"`

	// Adds lists additions of policies: requests of tasks, resources, reservations.
	Adds []string `json:"adds,omitempty"`

	// Submissions are the tasks to launch, with the additions of policies once Expand was called.
	Submissions []controlplane.Submission `json:"-"`

	doc *manifest.Document
	// policies are those of a job, or the declared one, and stored their stored forms. expanded is
	// the job with their additions. sets are the initial resources of a declared policy, and was the
	// revision of the policy or right that it replaces.
	policies []esl.Policy
	stored   []types.Policy
	expanded *esl.Expanded
	sets     []controlplane.Resource
	was      int64
	// namespace has the settings at the comparison; nil before it.
	namespace *types.Namespace
	// stop are the tasks to stop.
	stop []stopped
	// relabels are the objects that stay and get other labels.
	relabels []labeled
	// launched is set once a transaction has it.
	launched []string
}

// leads reports whether it is made before the transaction of all others.
func (c *Change) leads() bool {
	return c.Kind == manifest.KindNamespace || c.Kind == manifest.KindRight
}

// stopped is a task to stop.
type stopped struct {
	id    string
	grace time.Duration
}

func (s stopped) options() controlplane.StopOptions {
	return controlplane.StopOptions{Reason: "replaced by apply", Grace: s.grace}
}

// A Decision is the list of changes to make.
type Decision struct {
	// Revision is the revision of the decision.
	Revision int64    `json:"revision"`
	Changes  []Change `json:"changes"`
	// Condition is that no named object has changed since.
	Condition Condition `json:"condition"`

	// Told hears of the steps of updates; nil means no one.
	Told func(Step) `json:"-"`

	reads  controlplane.ReadSet
	rights Rights
}

// Blocked returns an error that names the first obstacle; nil if there is none. Precondition.
func (d *Decision) Blocked() error {
	for i := range d.Changes {
		if c := &d.Changes[i]; !c.Blocked.IsZero() {
			return types.Errorf(types.Precondition, "%s: %s", c, c.Blocked)
		}
	}
	return nil
}

// Labels returns the labels of a job that it launches.
func (c *Change) Labels() []types.Label { return types.LabelsOf(c.doc.Job.Labels) }

// String returns kind and name of the change.
func (c *Change) String() string {
	return strings.TrimSpace(strings.ToLower(string(c.Kind)) + " " + c.Name)
}

// transaction makes all changes one transaction, and fills in the launched ids.
func (d *Decision) transaction(c *controlplane.Client) *controlplane.Transaction {
	tx := c.Begin(d.reads)
	for i := range d.Changes {
		x := &d.Changes[i]
		for _, s := range x.stop {
			tx.Stop(s.id, s.options())
		}
		switch x.Action {
		case Set, Reserve, Declare:
			x.make(tx)
		case Launch, Replace:
			if x.expanded != nil {
				x.Done(x.expanded.Add(tx))
				continue
			}
			if x.Kind == manifest.KindTask {
				tx.IfNoTaskSince(x.Name, d.Revision)
				x.Done(controlplane.Launched{Tasks: tx.Launch(x.Submissions...)})
				continue
			}
			x.Done(tx.LaunchJob(d.job(x)))
		}
	}
	return tx
}

// job returns the job of a change, on the condition that no other one of its name was created.
func (d *Decision) job(x *Change) controlplane.Job {
	return controlplane.Job{
		Name: x.Name, Labels: x.Labels(), Tasks: x.Submissions, NoneSince: d.Revision, RequestDigest: RequestDigest(x.Submissions, x.stored),
	}
}

// make adds a resource, reservation or shared policy to a transaction.
func (c *Change) make(tx *controlplane.Transaction) {
	switch c.Action {
	case Set:
		if c.doc.Resource == nil {
			return // namespaces and rights are set earlier
		}
		s, _ := c.doc.Resource.Resource() // checked when it was parsed
		tx.SetResource(c.Name, s.Capacity, s.Where, s.Options)
	case Reserve:
		tx.Reserve(c.Name, c.doc.Reservation.Reservation())
	case Declare:
		tx.SetPolicies(c.Name, types.Policies{Session: c.doc.Policy.Session, Policies: c.stored}, c.was)
		for _, s := range c.sets {
			if c.was == 0 {
				tx.IfNoResource(s.Name, c.Name)
			}
			tx.SetResource(s.Name, s.Capacity, s.Where, s.Options)
		}
	}
}

func first(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return ids[0]
}

// Launched returns the ids of all launched tasks, in the order of the documents.
func (d *Decision) Launched() []string {
	var ids []string
	for i := range d.Changes {
		ids = append(ids, d.Changes[i].launched...)
	}
	return ids
}

// Perform makes the changes, and fills in the ids. It sets namespaces first, because launches obey
// them, and then all rights or none. One transaction makes the rest. Its condition is that nothing
// the decision relied on has changed, and that no task or job with a launched name was created.
// Changes too large for one transaction take several, in this order: resources, reservations and
// single tasks, as many at once as possible; each job; the stops of replaced objects.
//
// Conflict: something has changed. Precondition: something is in the way, see Blocked. Nothing was
// done then, unless the error says so.
func (d *Decision) Perform(ctx context.Context, c *controlplane.Client) error {
	if err := d.Blocked(); err != nil {
		return err
	}
	if err := d.setNamespaces(ctx, c); err != nil {
		return err
	}
	if err := d.setRights(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context, *controlplane.Client) error{d.stopFirst, d.others, d.relabel, d.healthyAfter} {
		if err := step(ctx, c); err != nil {
			return err
		}
	}
	for i := range d.Changes {
		if x := &d.Changes[i]; x.Action == Update {
			if err := d.update(ctx, c, x); err != nil {
				return err
			}
		}
	}
	return nil
}

// others makes all changes but those of jobs that stay.
func (d *Decision) others(ctx context.Context, c *controlplane.Client) error {
	if !d.todo() {
		return nil
	}
	tx, err := d.whole(ctx, c)
	if err != nil {
		return err
	}
	if tx == nil {
		return d.inParts(ctx, c)
	}
	_, err = tx.Commit(ctx)
	return err
}

// whole returns the transaction of all changes; nil if the store does not take it.
func (d *Decision) whole(ctx context.Context, c *controlplane.Client) (*controlplane.Transaction, error) {
	if d.large(c.Store().Limits()) {
		return nil, nil
	}
	tx := d.transaction(c)
	p, err := tx.Preview(ctx)
	if err != nil || p.TooLarge != nil {
		return nil, err
	}
	return tx, nil
}

// todo reports whether there are changes besides those that are made first.
func (d *Decision) todo() bool {
	for i := range d.Changes {
		if d.Changes[i].leads() {
			continue
		}
		if a := d.Changes[i].Action; a != Unchanged && a != Update && a != Relabel || len(d.Changes[i].stop) > 0 {
			return true
		}
	}
	return false
}

// large reports whether the changes certainly exceed one transaction.
func (d *Decision) large(limits controlplane.Limits) bool {
	n := 0
	for i := range d.Changes {
		n += len(d.Changes[i].stop) + len(d.Changes[i].sets)
		if d.Changes[i].Action != Update {
			n += len(d.Changes[i].Submissions)
		}
	}
	return n > limits.Ops
}

// inParts makes the changes in several transactions.
func (d *Decision) inParts(ctx context.Context, c *controlplane.Client) error {
	small := Decision{Revision: d.Revision, reads: d.reads}
	var at, large []int
	for i, x := range d.Changes {
		switch {
		case x.leads():
		case x.Action == Set || x.Action == Reserve || x.Action == Declare || x.Kind == manifest.KindTask && x.Action == Launch:
			small.Changes, at = append(small.Changes, x), append(at, i)
		case x.Action != Unchanged && x.Action != Update && x.Action != Relabel:
			large = append(large, i)
		}
	}
	err := small.inOrder(ctx, c)
	for i, x := range small.Changes {
		d.Changes[at[i]] = x
	}
	if err != nil {
		return err
	}
	for _, i := range large {
		x := &d.Changes[i]
		if err := d.launch(ctx, c, x); err != nil {
			return types.Errorf(types.ClassOf(err), "%w: smaller and earlier changes are done: apply the file again", err)
		}
	}
	for i := range d.Changes {
		x := &d.Changes[i]
		for _, s := range x.stop {
			if err := c.Stop(ctx, s.id, s.options()); err != nil && !types.Is(err, types.NotFound) {
				return types.Errorf(types.ClassOf(err), "%s: launched, but the replaced one is not stopped: %w: stop it by hand", x, err)
			}
		}
	}
	return nil
}

// inOrder makes the changes in their order, as many at once as the store takes.
func (d *Decision) inOrder(ctx context.Context, c *controlplane.Client) error {
	reads, n := d.reads, len(d.Changes)
	for done := 0; done < len(d.Changes); {
		n = min(n, len(d.Changes)-done)
		part := Decision{Revision: d.Revision, reads: reads, Changes: d.Changes[done : done+n]}
		tx, err := part.whole(ctx, c)
		if err == nil && tx == nil && n > 1 {
			n = (n + 1) / 2
			continue
		}
		if err == nil {
			if tx == nil {
				tx = part.transaction(c) // Its Commit says what is too large.
			}
			_, err = tx.Commit(ctx)
		}
		switch {
		case err != nil && done > 0:
			return types.Errorf(types.ClassOf(err), "%w: earlier changes are done: apply the file again", err)
		case err != nil:
			return err
		}
		// A part may change what the decision has read.
		done, reads = done+n, controlplane.ReadSet{}
	}
	return nil
}

// launch launches one large change. Errors name it.
func (d *Decision) launch(ctx context.Context, c *controlplane.Client, x *Change) error {
	if x.expanded != nil {
		tx := c.Begin()
		x.Done(x.expanded.Add(tx))
		_, err := tx.InParts().Commit(ctx)
		return err
	}
	if x.Kind == manifest.KindTask {
		tx := c.Begin().IfNoTaskSince(x.Name, d.Revision)
		x.Done(controlplane.Launched{Tasks: tx.Launch(x.Submissions...)})
		_, err := tx.Commit(ctx)
		return err
	}
	l, err := c.LaunchJob(ctx, d.job(x))
	x.Done(l)
	return err
}

// Done records a launch for the change by the caller.
func (c *Change) Done(l controlplane.Launched) {
	c.launched, c.ID = l.Tasks, l.Job
	if c.Kind == manifest.KindTask {
		c.ID = first(l.Tasks)
	}
}

// CheckSettings finds resources that are set already, which needs the store's nodes. Invalid or
// Precondition: one of them cannot be set.
func (d *Decision) CheckSettings(ctx context.Context, c *controlplane.Client) error {
	for i := range d.Changes {
		x := &d.Changes[i]
		if x.Action != Set {
			continue
		}
		if x.leads() {
			if err := d.compareLeading(ctx, c, x); err != nil {
				return err
			}
			continue
		}
		p, err := (&Decision{Changes: []Change{*x}}).transaction(c).Preview(ctx)
		if err != nil {
			return err
		}
		if len(p.Writes) == 0 {
			x.Action = Unchanged
		}
	}
	return nil
}

// Preview applies the changes of resources and reservations to a view, with those of policies, so
// that tasks can be placed on it. Tasks to stop still hold their resources there.
func (d *Decision) Preview(ctx context.Context, c *controlplane.Client, v *cluster.View) error {
	tx := c.Begin()
	n := 0
	for i := range d.Changes {
		x := &d.Changes[i]
		switch {
		case x.leads():
		case x.Action == Set || x.Action == Reserve || x.Action == Declare:
			x.make(tx)
			n++
		case x.expanded != nil:
			x.expanded.Add(tx)
			n++
		}
	}
	if n == 0 {
		return nil
	}
	p, err := tx.Preview(ctx)
	if err != nil {
		return err
	}
	at := v.Revision + 1
	for _, op := range p.Writes {
		if k, _ := controlplane.Parse(op.Key); k.Kind != controlplane.Resources && k.Kind != controlplane.Reservations {
			continue // the caller places the tasks
		}
		e := controlplane.Event{Delete: op.Delete, KV: controlplane.KV{Key: op.Key, Value: op.Value, ModRevision: at}}
		if _, _, err := v.Apply(e); err != nil {
			return fmt.Errorf("preview %s: %w", op.Key, err)
		}
	}
	v.Reached(at)
	return nil
}
