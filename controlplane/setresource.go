package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/escher-sched/escher/types"
)

// SetOptions are the properties of a resource besides capacity and location.
type SetOptions struct {
	// Declare keeps a resource of capacity 0, which exists and is closed. Without it, 0 removes the
	// resource.
	Declare bool
	// Lifetime is the kind of object whose end removes the resource. Owner is the id of that task,
	// session, reservation, job or policy. The owner must exist, or be created earlier in the same
	// transaction.
	Lifetime types.Lifetime
	Owner    string
	// Own refuses to change or remove a resource with another owner or none.
	Own bool
	// Future allows labels that no node has yet.
	Future bool
}

// A Resource is an ephemeral resource to set: see SetResource.
type Resource struct {
	Name     string
	Capacity types.Quantity
	Where    Where
	Options  SetOptions
}

// SetResult is the result of SetResource.
type SetResult struct {
	// Revision is the revision of the last part.
	Revision int64
	// Parts is the number of transactions: several if one would be too large. Readers may have seen
	// some parts without the rest.
	Parts int
}

// SetResource sets the capacity of an ephemeral resource, whatever it was. 0 removes the resource;
// types.Inf means no bound. The capacity may be less than the amount in use: holders keep their
// amounts, and nothing new is bound until some is free. Setting the present value changes nothing.
//
// On named or chosen nodes the resource is the node's own, and ends with the present session of the
// node. On every node, with optional labels, it replaces the nodes' own capacities and the labels
// given before: a resource has one set of labels. A name is either one cluster-wide pool or on
// nodes: Precondition if it is of the other kind, which must be removed first.
//
// Conflict: the store did not answer, and another writer has changed the resource since.
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

// set is an edit that sets a resource.
type set struct {
	c        *Client
	name     string
	capacity types.Quantity
	where    Where
	opts     SetOptions

	// inParts allows several transactions; more reports whether writes remain that the latest draft
	// lacks.
	inParts, more bool
	// nodes are the chosen nodes; they stay the same once a part is committed.
	nodes []string
	// drawn is the latest draft. written holds the locations of earlier parts: they are not written
	// again, because they may have changed since.
	drawn   []write
	written map[string]bool
	// guesses lets the next draft use what the client remembers.
	guesses bool
}

// newSet does every check that does not need the cluster.
func (c *Client) newSet(name string, capacity types.Quantity, where Where, opts SetOptions) (*set, error) {
	where.Labels = types.SortLabels(where.Labels)
	errs := []error{types.ValidateEphemeral("name", name), where.validate()}
	if capacity < 0 {
		errs = append(errs, types.Errorf(types.Invalid, "capacity: %s is negative: give 0 to remove the resource, or more", capacity.Format(types.ResourceID(name))))
	}
	if capacity > types.MaxQuantity && capacity != types.Inf {
		errs = append(errs, types.Errorf(types.Invalid, "capacity: %d is too large: the largest is %s; inf means no bound",
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

// removes reports whether the edit removes the resource.
func (e *set) removes() bool { return e.capacity == 0 && !e.opts.Declare }

// draw adds the remaining writes, as many as fit if it may take parts.
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

// guard makes the change depend on the owner of the resource.
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

// ownerKey returns the key of the owner, empty if there is none.
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

// ifThere makes the change depend on a key that must exist. It reads the key unless remember lets
// it rely on memory, or the change itself puts or deletes the key.
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
		if kv, err = Get(ctx, s, key); err != nil {
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

// refused forgets the compared keys, and returns an error if the name is of the other kind.
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

// once reports false: a resource may be set repeatedly.
func (e *set) once() bool { return false }

// guess lets the next draft use what the client remembers, and assume that an unknown resource is
// absent.
func (e *set) guess() { e.guesses = true }

// done records the written locations.
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
			// Clone, because the value is part of a larger block of memory.
			e.c.known.set(KV{Key: key, ModRevision: revision, Value: bytes.Clone(w.value)})
		}
	}
}

// A resource name of a namespace is either one cluster-wide pool or a resource on nodes. So a
// reader of a node's key need not compare the absence of a pool.

// oneKind makes a change that creates a key depend on the name not being of the other kind. An
// existing key proves that already. Without guesses it also reads.
func (e *set) oneKind(ctx context.Context, s Store, change *Change, writes []write) error {
	if !e.makes(writes) {
		return nil
	}
	other := ListOptions{Limit: 1, KeysOnly: true}
	if e.where.Cluster {
		other.Prefix = Prefix(Resources, e.c.ns, e.name)
		change.IfNoneSince(other.Prefix, 0)
	} else {
		other.Key = ResourceKey(e.c.ns, e.name, types.ClusterWide)
		change.IfUnchanged(other.Key, 0)
	}
	if e.guesses {
		return nil
	}
	page, err := s.List(ctx, other)
	if err != nil {
		return err
	}
	for _, kv := range page.KVs {
		if err := e.otherKind(kv); err != nil {
			return err
		}
	}
	return nil
}

// makes reports whether the edit still has to create a key.
func (e *set) makes(writes []write) bool {
	for _, w := range writes {
		if w.mod == 0 && w.want != nil && !e.written[w.where] {
			return true
		}
	}
	return false
}

// grows reports whether the writes take more space in the store: they create a key, or set labels.
func (e *set) grows(writes []write) bool {
	return e.makes(writes) || slices.ContainsFunc(writes, func(w write) bool { return !w.same && w.want != nil && w.want.Selector != nil })
}

// otherKind returns an error if an existing key makes the name one of the other kind.
func (e *set) otherKind(kv KV) error {
	k, ok := Parse(kv.Key)
	if e.removes() || !ok || kv.ModRevision == 0 || k.Kind != Resources || k.Namespace != e.c.ns || k.Name != e.name {
		return nil
	}
	switch {
	case (k.Where == types.ClusterWide) == e.where.Cluster:
		return nil
	case !e.where.Cluster:
		return types.Errorf(types.Precondition, "where: %q is one pool of the whole cluster, which all requests draw on: set it in the cluster, or remove it there first", e.name)
	}
	on := OnNode(k.Where)
	if k.Where == types.EveryNode {
		on = OnEvery()
	}
	return types.Errorf(types.Precondition, "where.cluster: %q is %s, and a pool of the cluster cannot be on nodes: remove it on every node first, or choose another name", e.name, on)
}

// oneKindEach refuses edits that together make a name both kinds. The compares of a transaction
// cannot: they see the state before it.
func oneKindEach(edits []edit) error {
	last := make(map[string]*set)
	for _, e := range edits {
		x, ok := e.(*set)
		if !ok {
			continue
		}
		before := last[x.name]
		if before != nil && before.where.Cluster != x.where.Cluster && !(before.removes() && x.removes()) {
			return types.Errorf(types.Invalid, "where: %q is set in the cluster and on nodes in one transaction, and a name is one or the other: remove one first, in a transaction of its own", x.name)
		}
		if before == nil || before.removes() {
			last[x.name] = x
		}
	}
	return nil
}
