package controlplane

import (
	"bytes"
	"context"
	"fmt"

	"github.com/escher-sched/escher/types"
)

// SetOptions says more about a resource than how much of it there is, and where.
type SetOptions struct {
	// Declare keeps a resource of capacity 0: it exists, and is closed. Without
	// it, 0 removes the resource.
	Declare bool
	// Lifetime is what the resource ends with, besides being removed; Owner is
	// the id of that task, session, reservation or job, which must exist, or come to be in
	// the same transaction, before.
	Lifetime types.Lifetime
	Owner    string
	// Own refuses to change or remove a resource that ends with another owner, or with none.
	Own bool
	// Future allows labels that no node has yet.
	Future bool
}

// Setting is an ephemeral resource as it is to be: what SetResource takes.
type Setting struct {
	Name     string
	Capacity types.Quantity
	Where    Where
	Options  SetOptions
}

// SetResult tells what became of SetResource.
type SetResult struct {
	// Revision is that of the last part.
	Revision int64
	// Parts is how many transactions it took: more than one when it was too
	// large. Others may have seen some of the parts without the rest.
	Parts int
}

// SetResource makes the capacity of an ephemeral resource what is given, whatever
// it was: 0 removes it, types.Inf is no bound. It may be less than what is in use:
// those who hold it keep it, and nothing new is bound to it until some is free.
// Setting what is already so changes nothing.
//
// On nodes that are named or chosen it is the node's own, and ends with the present
// session of the node. On every node (with these labels) it replaces what these
// nodes had of their own, and the labels given before: there is one set of labels
// for each resource. A name is either one pool of the cluster or on nodes, never both:
// to make one of the other, remove it first, or it is Precondition.
//
// Conflict: the store did not answer, and somebody else changed it since.
func (c *Client) SetResource(ctx context.Context, name string, capacity types.Quantity, where Where, opts SetOptions) (SetResult, error) {
	e, err := c.newSet(name, capacity, where, opts)
	if err != nil {
		return SetResult{}, err
	}
	e.inParts = true
	var res SetResult
	for e.more = true; e.more; {
		if res.Revision, err = perform(ctx, c.store, nil, e); err != nil {
			return res, err
		}
		res.Parts++
	}
	return res, nil
}

// set is a resource being set.
type set struct {
	c        *Client
	name     string
	capacity types.Quantity
	where    Where
	opts     SetOptions

	// inParts lets it take several transactions; more tells that there is more
	// to do than was drawn up last.
	inParts, more bool
	// nodes are those chosen; they stay once a part is committed.
	nodes []string
	// drawn is what was drawn up last, written the places of earlier parts. What
	// was written is not written again: it may have been changed since.
	drawn   []write
	written map[string]bool
	// guesses lets it go by what the client remembers the next time that it is
	// drawn up.
	guesses bool
}

// newSet checks all that can be checked without the cluster.
func (c *Client) newSet(name string, capacity types.Quantity, where Where, opts SetOptions) (*set, error) {
	errs := []error{types.ValidateEphemeral("name", name), where.validate()}
	if capacity < 0 {
		errs = append(errs, types.Errorf(types.Invalid, "capacity: %s is negative: give 0 to remove the resource, or more", capacity.Format(types.ResourceID(name))))
	}
	if capacity > types.MaxQuantity && capacity != types.Inf {
		errs = append(errs, types.Errorf(types.Invalid, "capacity: %d is too large: the largest is %s; write inf for no bound",
			capacity, types.MaxQuantity.Format(types.ResourceID(name))))
	}
	switch opts.Lifetime {
	case types.Forever:
		if opts.Owner != "" {
			errs = append(errs, types.Errorf(types.Invalid, "owner: %q is given without a lifetime: say whether it is a task, session, reservation, job or policy", opts.Owner))
		}
	case types.OfTask, types.OfSession, types.OfReservation, types.OfJob, types.OfPolicy:
		errs = append(errs, types.ValidateName("owner", opts.Owner))
	default:
		errs = append(errs, types.Errorf(types.Invalid, "lifetime: %q is unknown: use task, session, reservation, job or policy, or leave it out", opts.Lifetime))
	}
	if err := invalid(errs); err != nil {
		return nil, types.Errorf(types.Invalid, "set resource %q: %w", name, err)
	}
	return &set{c: c, name: name, capacity: capacity, where: where, opts: opts, written: make(map[string]bool)}, nil
}

func (e *set) verb() string { return fmt.Sprintf("set resource %s %s", e.name, e.where) }

// removes reports whether the resource is to go.
func (e *set) removes() bool { return e.capacity == 0 && !e.opts.Declare }

// draw adds what is still to be written, as much as fits if it may take parts.
func (e *set) draw(ctx context.Context, s Store, change *Change) error {
	defer func() { e.guesses = false }()
	if err := e.guard(ctx, s, change); err != nil {
		return err
	}
	writes, err := e.plan(ctx, s)
	if err != nil {
		return err
	}
	if err := e.oneKind(ctx, s, change, writes); err != nil {
		return err
	}
	if e.grows(writes) {
		e.c.ifInBudget(change)
	}
	e.more, e.drawn = false, e.drawn[:0]
	limits := s.Limits()
	for _, w := range writes {
		if e.written[w.where] {
			continue
		}
		compares, ops := change.Size()
		if e.inParts && (max(compares+2, ops+1) > limits.Ops || change.bytes > limits.Bytes*3/4) {
			e.more = true
			return nil
		}
		e.drawn = append(e.drawn, e.add(change, w))
	}
	return nil
}

// guard makes the change depend on what must be there or must not, besides the
// resource itself.
func (e *set) guard(ctx context.Context, s Store, change *Change) error {
	if e.removes() {
		return nil
	}
	key := e.ownerKey()
	if key == "" {
		return nil
	}
	return e.c.ifThere(ctx, s, change, key, e.guesses, "owner", e.opts.Owner, string(e.opts.Lifetime))
}

// ownerKey is the key of what it ends with, empty for nothing.
func (e *set) ownerKey() string {
	switch e.opts.Lifetime {
	case types.OfTask:
		return TaskKey(e.c.ns, e.opts.Owner)
	case types.OfSession:
		return SessionKey(e.c.ns, e.opts.Owner)
	case types.OfReservation:
		return ReservationKey(e.c.ns, e.opts.Owner)
	case types.OfJob:
		return JobKey(e.c.ns, e.opts.Owner)
	case types.OfPolicy:
		return PoliciesKey(e.c.ns, e.opts.Owner)
	}
	return ""
}

// ifThere makes the change depend on a key that must be there, and read unless it may
// be remembered, or the change itself puts or deletes it.
func (c *Client) ifThere(ctx context.Context, s Store, change *Change, key string, remember bool, field, id, kind string) error {
	missing := func() error {
		return types.Errorf(types.Precondition, "%s: there is no %s %q: create it first, or correct the id", field, kind, id)
	}
	switch {
	case change.puts(key):
		return nil
	case change.writes(key):
		return missing()
	}
	kv, ok := c.known.get(key)
	if !ok || !remember {
		var err error
		if kv, err = get(ctx, s, key); err != nil {
			return err
		}
		if kv.ModRevision == 0 {
			return missing()
		}
		c.known.set(KV{Key: key, CreateRevision: kv.CreateRevision})
	}
	change.IfCreated(key, kv.CreateRevision)
	return nil
}

// refused tells when the name is of the other kind. What was remembered of the keys is
// out of date.
func (e *set) refused(ctx context.Context, s Store, keys []KV) error {
	if err := e.c.inBudget(ctx, s, keys); err != nil {
		return err
	}
	for _, kv := range keys {
		e.c.known.forget(kv.Key)
		if err := e.otherKind(kv); err != nil {
			return err
		}
	}
	return nil
}

// once is false: a resource can be set again and again.
func (e *set) once() bool { return false }

// guess lets it go by what its client remembers: that a resource which it does not
// know is not there.
func (e *set) guess() { e.guesses = true }

// done notes what is written.
func (e *set) done(revision int64) {
	for _, w := range e.drawn {
		e.written[w.where] = true
		key := ResourceKey(e.c.ns, e.name, w.where)
		switch {
		case w.want == nil:
			e.c.known.forget(key)
		case w.same:
			e.c.known.set(KV{Key: key, ModRevision: w.mod, Value: w.value})
		default:
			// The value is part of a larger block of memory.
			e.c.known.set(KV{Key: key, ModRevision: revision, Value: bytes.Clone(w.value)})
		}
	}
}
