package controlplane

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/types"
)

// A Reservation is a reservation to create under an id: see Reserve.
type Reservation struct {
	ID string
	types.Reservation
}

// Reserve asks the scheduler to lock bundles under an id, all or none. Tasks draw on them with
// requests such as gpu@<id>. Reserve sets Submitted to now.
//
// AlreadyExists: a reservation has that id. Invalid: the reservation is invalid, or collects at
// once on more nodes than one transaction can hand over.
func (c *Client) Reserve(ctx context.Context, id string, r types.Reservation) error {
	e, err := c.newReserve(id, r)
	if err != nil {
		return err
	}
	_, err = perform(ctx, c.store, nil, e)
	return err
}

// Unreserve deletes a reservation. No further task draws on it; running tasks keep their amounts.
// NotFound: no reservation has that id.
func (c *Client) Unreserve(ctx context.Context, id string) error {
	_, err := perform(ctx, c.store, nil, &unreserve{ns: c.ns, id: id})
	return err
}

// reserve is an edit that creates a reservation.
type reserve struct {
	c      *Client
	ns, id string
	r      types.Reservation
	// guesses lets the next draft use what the client remembers of the namespace.
	guesses bool
}

func (c *Client) newReserve(id string, r types.Reservation) (*reserve, error) {
	r.Submitted = time.Now().UnixNano()
	errs := []error{types.ValidateName("id", id), r.Validate()}
	if r.Session != "" {
		errs = append(errs, types.ValidateName("session", r.Session))
	}
	if r.Job != "" {
		errs = append(errs, types.ValidateName("job", r.Job))
	}
	if r.Policy != "" {
		errs = append(errs, types.ValidateName("policy", r.Policy))
	}
	if err := invalid(errs); err != nil {
		return nil, types.Errorf(types.Invalid, "reserve %q: %w", id, err)
	}
	return &reserve{c: c, ns: c.ns, id: id, r: r}, nil
}

func (e *reserve) verb() string { return "reserve " + e.id }

func (e *reserve) draw(ctx context.Context, s Store, change *Change) error {
	if err := e.check(ctx, s); err != nil {
		return err
	}
	change.IfUnchanged(AdmissionKey(), 0)
	e.c.ifInBudget(change)
	n, err := e.c.settings(ctx, s, change, e.guesses)
	if err == nil {
		err = Allows(n, e.ns, "", e.r.Priority, e.r.Accumulate || e.r.Directed())
	}
	if e.guesses = false; err != nil {
		return err
	}
	if e.r.Session != "" {
		if err := e.c.ifThere(ctx, s, change, SessionKey(e.ns, e.r.Session), false, "session", e.r.Session, "session"); err != nil {
			return err
		}
	}
	if e.r.Job != "" {
		if err := e.c.ifThere(ctx, s, change, JobKey(e.ns, e.r.Job), false, "job", e.r.Job, "job"); err != nil {
			return err
		}
	}
	if e.r.Policy != "" {
		if err := e.c.ifThere(ctx, s, change, PoliciesKey(e.ns, e.r.Policy), false, "policy", e.r.Policy, "policy"); err != nil {
			return err
		}
	}
	key := ReservationKey(e.ns, e.id)
	change.IfUnchanged(key, 0)
	change.Put(key, &e.r)
	return nil
}

// check refuses a reservation that can never be granted. It reads the nodes only if bundles name
// some.
func (e *reserve) check(ctx context.Context, s Store) error {
	if !slices.ContainsFunc(e.r.Bundles, func(b types.Bundle) bool { return b.Node != "" }) {
		return nil
	}
	nodes, _, err := ListAll(ctx, s, ListOptions{Prefix: Prefix(Nodes), KeysOnly: true})
	if err != nil {
		return err
	}
	if err := e.nodesKnown(nodes); err != nil {
		return err
	}
	if e.r.HandsOver() {
		return handOverFits(e.r.Collect.On, s.Limits())
	}
	return nil
}

// nodesKnown checks the names of nodes in bundles.
func (e *reserve) nodesKnown(nodes []KV) error {
	there := make(map[string]bool, len(nodes))
	var names []string
	for _, kv := range nodes {
		there[kv.Key] = true
		names = append(names, strings.TrimPrefix(kv.Key, Prefix(Nodes)))
	}
	var errs []error
	for i, b := range e.r.Bundles {
		if b.Node != "" && !there[NodeKey(b.Node)] {
			errs = append(errs, types.Errorf(types.Invalid, "bundles[%d].node: %q is unknown: name one of the %d registered nodes, such as %s",
				i, b.Node, len(names), strings.Join(firstOf(names), ", ")))
		}
	}
	return invalid(errs)
}

// handOverFits refuses to collect on more nodes than one transaction can hand over.
func handOverFits(on []string, limits Limits) error {
	nodes := make(map[string]struct{})
	for _, node := range on {
		nodes[node] = struct{}{}
	}
	size := HandOverCompares(len(nodes), 1) // the caller has checked the other keys it relies on
	if size <= limits.Ops {
		return nil
	}
	most := (limits.Ops - HandOverCompares(0, 1)) / NodeCompares
	return types.Errorf(types.Invalid, "bundles: handing them over on %d nodes takes a transaction of %d, and the store takes %d at once: "+
		"at most %d nodes fit: request fewer, or run etcd with a larger --max-txn-ops", len(nodes), size, limits.Ops, max(0, most))
}

func (e *reserve) refused(ctx context.Context, s Store, keys []KV) error {
	if err := e.c.admit(ctx, s, keys); err != nil {
		return err
	}
	if err := e.c.inBudget(ctx, s, keys); err != nil {
		return err
	}
	for _, kv := range keys {
		if kv.Key == ReservationKey(e.ns, e.id) && kv.ModRevision != 0 {
			return types.Errorf(types.AlreadyExists, "reservation %s exists: unreserve it first, or choose another id", e.id)
		}
	}
	return nil
}

// guess lets the next draft use what the client remembers of the namespace.
func (e *reserve) guess() { e.guesses = true }

func (e *reserve) once() bool { return false }
func (e *reserve) done(int64) {}

// unreserve is an edit that deletes a reservation.
type unreserve struct {
	ns, id string
	// sent reports whether an earlier draft deleted it: then its absence is success.
	sent bool
}

func (e *unreserve) verb() string { return fmt.Sprintf("unreserve %q", e.id) }

func (e *unreserve) draw(ctx context.Context, s Store, change *Change) error {
	if err := types.ValidateName("id", e.id); err != nil {
		return err
	}
	key := ReservationKey(e.ns, e.id)
	kv, err := Get(ctx, s, key)
	if err != nil {
		return err
	}
	change.IfUnchanged(key, kv.ModRevision)
	if kv.ModRevision != 0 {
		e.sent = true
		change.Delete(key)
		return nil
	}
	if !e.sent {
		return types.Errorf(types.NotFound, "there is no reservation %s in namespace %s", e.id, e.ns)
	}
	return nil
}

func (e *unreserve) refused(context.Context, Store, []KV) error { return nil }
func (e *unreserve) once() bool                                 { return false }
func (e *unreserve) done(int64)                                 {}

// A reservation that collects capacity hands it over to its tasks in one transaction. A plan that
// the store could not take in one transaction is never started. Reservations and the scheduler
// therefore share this estimate.

// NodeCompares is the number of compares for each node that receives a task: its allocated key, its
// liveness, its identity and its cordon.
const NodeCompares = 4

// handOverBase is the number of further compares of a hand-over: reservations, their grants, and a
// reserve for late decisions.
const handOverBase = 15

// HandOverCompares returns the number of compares of a transaction that hands over capacity on a
// number of nodes. keys is the number of other keys it relies on: the namespace, pools, devices,
// and resources of applications.
func HandOverCompares(nodes, keys int) int { return handOverBase + NodeCompares*nodes + keys }
