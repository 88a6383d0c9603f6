// Package apply makes a cluster what documents describe: what is there and equal is
// left alone, what is not there is made. Decide compares, and is pure; Perform does
// it, in one conditional transaction where it fits one.
package apply

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// Action is what is to be done about a document.
type Action string

// The actions.
const (
	// Launch: it is not there.
	Launch Action = "launch"
	// Unchanged: it is there as described.
	Unchanged Action = "unchanged"
	// Replace: another one of that name is there; it is stopped.
	Replace Action = "replace"
	// Set: the resource, or the namespace, is to be set.
	Set Action = "set"
	// Reserve: the reservation is to be made.
	Reserve Action = "reserve"
	// Declare: the shared policy is to be declared, or changed.
	Declare Action = "declare"
)

// Options says what may be done.
type Options struct {
	// Replace allows to stop what differs and runs, or waits to.
	Replace bool
	// If is the condition under which anything is done; the zero value is none.
	If Condition
}

// Change is what is to be done about a document.
type Change struct {
	Kind   manifest.Kind `json:"kind"`
	Name   string        `json:"name,omitempty"`
	Action Action        `json:"action"`
	// ID is what is there already, or has been launched.
	ID string `json:"id,omitempty"`
	// Tasks is how many tasks are to be launched.
	Tasks int `json:"tasks,omitempty"`
	// Note says how far what is there is.
	Note string `json:"note,omitempty"`
	// Stops are the ids of tasks or jobs that are stopped for it.
	Stops []string `json:"stops,omitempty"`
	// Differences say what differs from what is there: "spec.image: a → b".
	Differences []string `json:"differences,omitempty"`
	// Blocked says why it is not done; empty if it is.
	Blocked types.Text `json:"blocked,omitzero"`

	// Adds says what policies add: requests of tasks, resources, reservations.
	Adds []string `json:"adds,omitempty"`

	// Submissions are the tasks to be launched, once Expand was called with all that
	// policies add to them.
	Submissions []controlplane.Submission `json:"-"`

	doc *manifest.Document
	// policies are those of a job, or the one that is declared, as they are stored;
	// expanded is the job with what they add, sets what a declared one has from the
	// first moment on, and was the revision of what it replaces.
	policies []types.Policy
	expanded *Expanded
	sets     []controlplane.Setting
	was      int64
	// namespace is what was set for a namespace when it was compared; nil before that.
	namespace *types.Namespace
	// stop are the tasks that are to be stopped.
	stop []stopped
	// launched is set once it is in a transaction.
	launched []string
}

// stopped is a task that is to be stopped.
type stopped struct {
	id    string
	grace time.Duration
}

func (s stopped) options() controlplane.StopOptions {
	return controlplane.StopOptions{Reason: "replaced by apply", Grace: s.grace}
}

// Decision is what is to be done.
type Decision struct {
	// Revision is the one that was decided on.
	Revision int64    `json:"revision"`
	Changes  []Change `json:"changes"`
	// Condition is that nothing concerned has changed since.
	Condition Condition `json:"condition"`

	reads controlplane.ReadSet
}

// Blocked returns an error that says what is in the way; nil if nothing is.
// Precondition.
func (d *Decision) Blocked() error {
	for i := range d.Changes {
		if c := &d.Changes[i]; !c.Blocked.IsZero() {
			return types.Errorf(types.Precondition, "%s: %s", c, c.Blocked)
		}
	}
	return nil
}

// String names what the change is about.
func (c *Change) String() string {
	return strings.TrimSpace(strings.ToLower(string(c.Kind)) + " " + c.Name)
}

// transaction is all of it as one transaction. It fills in the ids of what is
// launched.
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
			x.Done(tx.LaunchJob(d.job(x), x.Submissions...))
		}
	}
	return tx
}

// job is the job of a change, on the condition that no other one of its name has come.
func (d *Decision) job(x *Change) controlplane.Job {
	return controlplane.Job{Name: x.Name, NoneSince: d.Revision}
}

// make adds a resource, reservation or shared policy to a transaction.
func (c *Change) make(tx *controlplane.Transaction) {
	switch c.Action {
	case Set:
		if c.doc.Resource == nil {
			return // namespaces are set before
		}
		s, _ := c.doc.Resource.Setting() // which was checked when it was parsed
		tx.SetResource(c.Name, s.Capacity, s.Where, s.Options)
	case Reserve:
		tx.Reserve(c.Name, c.doc.Reservation.Reservation())
	case Declare:
		tx.SetPolicies(c.Name, types.Policies{Session: c.doc.Policy.Session, Policies: c.policies}, c.was)
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

// Launched returns the ids of all tasks that were launched, in the order of the
// documents.
func (d *Decision) Launched() []string {
	var ids []string
	for i := range d.Changes {
		ids = append(ids, d.Changes[i].launched...)
	}
	return ids
}

// Perform does what was decided, and fills in the ids. Namespaces are set first: what is
// launched goes by them. One transaction does the rest, on
// the condition that nothing has changed that it was decided on, and that no task or
// job of a name that is launched has come. What is too large
// for one is done in several, in this order: resources, reservations and tasks of
// their own; each job; then what is replaced is stopped.
//
// Conflict: something has changed. Precondition: something is in the way, see
// Blocked. Nothing was done then, or what the error says.
func (d *Decision) Perform(ctx context.Context, c *controlplane.Client) error {
	if err := d.Blocked(); err != nil {
		return err
	}
	if err := d.setNamespaces(ctx, c); err != nil {
		return err
	}
	if !d.todo() {
		return nil
	}
	if !d.large(c.Store().Limits()) {
		tx := d.transaction(c)
		p, err := tx.Preview(ctx)
		if err != nil {
			return err
		}
		if p.TooLarge == nil {
			_, err = tx.Commit(ctx)
			return err
		}
	}
	return d.inParts(ctx, c)
}

// todo reports whether there is something to be done besides namespaces.
func (d *Decision) todo() bool {
	for i := range d.Changes {
		if d.Changes[i].Kind == manifest.KindNamespace {
			continue
		}
		if d.Changes[i].Action != Unchanged || len(d.Changes[i].stop) > 0 {
			return true
		}
	}
	return false
}

// large reports whether it is certainly more than one transaction.
func (d *Decision) large(limits controlplane.Limits) bool {
	n := 0
	for i := range d.Changes {
		n += len(d.Changes[i].Submissions) + len(d.Changes[i].stop) + len(d.Changes[i].sets)
	}
	return n > limits.Ops
}

// inParts does it in several transactions.
func (d *Decision) inParts(ctx context.Context, c *controlplane.Client) error {
	small := Decision{Revision: d.Revision, reads: d.reads}
	var at, large []int
	for i, x := range d.Changes {
		switch {
		case x.Kind == manifest.KindNamespace:
		case x.Action == Set || x.Action == Reserve || x.Action == Declare || x.Kind == manifest.KindTask && x.Action == Launch:
			small.Changes, at = append(small.Changes, x), append(at, i)
		case x.Action != Unchanged:
			large = append(large, i)
		}
	}
	if len(small.Changes) > 0 {
		if _, err := small.transaction(c).Commit(ctx); err != nil {
			return err
		}
		for i, x := range small.Changes {
			d.Changes[at[i]] = x
		}
	}
	for _, i := range large {
		x := &d.Changes[i]
		if err := d.launch(ctx, c, x); err != nil {
			return types.Errorf(types.ClassOf(err), "%s: %w: what is smaller, or comes before it in the file, is done: apply it again", x, err)
		}
	}
	for i := range d.Changes {
		x := &d.Changes[i]
		for _, s := range x.stop {
			if err := c.Stop(ctx, s.id, s.options()); err != nil && !types.Is(err, types.NotFound) {
				return types.Errorf(types.ClassOf(err), "%s: launched, but what it replaces is not stopped: %w: stop it by hand", x, err)
			}
		}
	}
	return nil
}

// launch launches what is launched by itself.
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
	l, err := c.LaunchJob(ctx, d.job(x), x.Submissions...)
	x.Done(l)
	return err
}

// Done notes what was launched for the change by somebody else.
func (c *Change) Done(l controlplane.Launched) {
	c.launched, c.ID = l.Tasks, l.Job
	if c.Kind == manifest.KindTask {
		c.ID = first(l.Tasks)
	}
}

// CheckSettings finds out which resources are so already: that takes the store, which
// knows the nodes. Invalid, or Precondition: one of them cannot be set so.
func (d *Decision) CheckSettings(ctx context.Context, c *controlplane.Client) error {
	for i := range d.Changes {
		x := &d.Changes[i]
		if x.Action != Set {
			continue
		}
		if x.Kind == manifest.KindNamespace {
			if err := x.compareNamespace(ctx, c); err != nil {
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

// Preview shows in a view what the change of resources and reservations will be, those
// of policies included, so that tasks can be placed on it. What is to be stopped still holds its room there.
func (d *Decision) Preview(ctx context.Context, c *controlplane.Client, v *cluster.View) error {
	tx := c.Begin()
	n := 0
	for i := range d.Changes {
		x := &d.Changes[i]
		switch {
		case x.Kind == manifest.KindNamespace:
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
			continue // the tasks are placed by who asks
		}
		e := controlplane.Event{Delete: op.Delete, KV: controlplane.KV{Key: op.Key, Value: op.Value, ModRevision: at}}
		if _, _, err := v.Apply(e); err != nil {
			return fmt.Errorf("preview %s: %w", op.Key, err)
		}
	}
	v.Reached(at)
	return nil
}
