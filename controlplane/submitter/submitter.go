// Package submitter records and checks for which user tasks are submitted.
package submitter

import (
	"context"
	"reflect"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Label is the label of a task or job that names its user.
const Label = "user"

// Submitter is the user or program that sends a request.
type Submitter struct {
	// User is its name. Empty means that it has no identity: nothing is recorded or checked.
	User string
	// ForOthers returns nil if it may submit tasks for other users in a namespace. Denied: it may not.
	ForOthers func(ns string) error
}

// key is the key of the submitter in a context.
type key struct{}

// With returns a context of a request by a submitter.
func With(ctx context.Context, s Submitter) context.Context { return context.WithValue(ctx, key{}, s) }

// From returns the submitter of a request; its zero value without one.
func From(ctx context.Context) Submitter {
	s, _ := ctx.Value(key{}).(Submitter)
	return s
}

// Act returns nil if the submitter may use the name of a user in a namespace. Denied: the error names
// the field, and what to do instead.
func (s Submitter) Act(field, ns, user, instead string) error {
	if s.User == "" || user == s.User {
		return nil
	}
	if err := s.ForOthers(ns); err != nil {
		return types.Errorf(types.Denied, "%s: %q is another user: %s to submit it for %s: %w", field, types.Cut(user, types.MaxName), instead, s.User, err)
	}
	return nil
}

// Rules returns what shares ask of what submitters put in one transaction. nil means that there are no shares.
type Rules func(ctx context.Context) *Checks

// Checks are the rules for one transaction, which read each thing once.
type Checks struct {
	// Payer returns the user whose share a resource is part of; empty if it is part of none.
	Payer func(resource string) string
	// Draws returns nil if requests of a namespace draw on the shares on which each of its tasks draws.
	// reserves reports whether they are of a reservation without a job. Denied: they do not.
	Draws func(ns string, requests types.Requests, reserves bool) error
	// Sets returns nil if a submitter may set or delete a resource of a namespace. Denied: a policy of
	// another namespace sets it.
	Sets func(ns, resource string) error
	// Declares returns nil if a submitter may put policies of an id. Denied: they would evade a share.
	Declares func(ns, id string, p *types.Policies) error
}

// in returns the checks of a transaction; nil if there are none.
func (r Rules) in(ctx context.Context) *Checks {
	if r == nil {
		return nil
	}
	return r(ctx)
}

// Store is a store whose transactions record, in new tasks and jobs, their submitter. It
// refuses those that name another user, in a label or in a request, and what its rules refuse.
type Store struct {
	controlplane.Store
	// Rules are those of shares.
	Rules Rules
	// Committed is called after each committed transaction; nil means that it is not.
	Committed func(ctx context.Context, txn controlplane.Txn, revision int64)
}

// Scan reads a range as the store below does.
func (s Store) Scan(ctx context.Context, opts controlplane.ListOptions, take func([]controlplane.KV) error) (int64, error) {
	return controlplane.Scan(ctx, s.Store, opts, take)
}

// Fork returns a view of nodes that the store below follows, nil if it follows none: see mirror.Store.
func (s Store) Fork(ctx context.Context) (*cluster.View, error) {
	return cluster.ForkOf(ctx, s.Store)
}

// Commit commits a transaction of the submitter of ctx. Denied: it names another user.
func (s Store) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	if by := From(ctx); by.User != "" {
		var err error
		if txn.Ops, err = recorded(by, s.Rules.in(ctx), txn); err != nil {
			return controlplane.Result{}, err
		}
	}
	res, err := s.Store.Commit(ctx, txn)
	if err == nil && res.Committed && s.Committed != nil {
		s.Committed(ctx, txn, res.Revision)
	}
	return res, err
}

// recorded returns the operations of a transaction, with the user in new tasks and jobs.
func recorded(by Submitter, checks *Checks, txn controlplane.Txn) ([]controlplane.Op, error) {
	there := make(map[string]bool)
	for _, c := range txn.Compares {
		if c.Revision != 0 {
			there[c.Key] = true
		}
	}
	ops := make([]controlplane.Op, len(txn.Ops))
	for i, op := range txn.Ops {
		var err error
		if ops[i] = op; op.Delete {
			err = checks.Deletes(op.Key)
		} else {
			ops[i].Value, err = by.Recorded(checks, op.Key, op.Value, !there[op.Key])
		}
		if err != nil {
			return nil, err
		}
	}
	return ops, nil
}

// Deletes returns nil if a submitter may delete a key. Denied: a policy of another namespace sets it.
func (c *Checks) Deletes(key string) error {
	k, ok := controlplane.Parse(key)
	if !ok || c == nil || k.Kind != controlplane.Resources {
		return nil
	}
	if err := c.Sets(k.Namespace, k.Name); err != nil {
		return types.Errorf(types.ClassOf(err), "resource %s: %w", k.Name, err)
	}
	return nil
}

// Recorded returns the value to put for a key, with the user in a new task or job. fresh reports
// whether the transaction makes the key. checks are of Store.Rules; nil means none. Denied: the value names
// another user, or the checks refuse it.
func (s Submitter) Recorded(checks *Checks, key string, value []byte, fresh bool) ([]byte, error) {
	k, ok := controlplane.Parse(key)
	if !ok {
		return value, nil
	}
	kv := controlplane.KV{Key: key, Value: value}
	switch k.Kind {
	case controlplane.Tasks:
		var t types.Task
		if !controlplane.Read(kv, &t) {
			return value, nil // no reader takes it
		}
		user, err := s.user(k.Namespace, t.User, t.Labels, fresh)
		if err != nil || !fresh {
			return value, err
		}
		t.User = user
		if err := s.chargesTask(checks, k.Namespace, user, &t); err != nil {
			return nil, err
		}
		return types.AppendEncode(nil, types.Batch(value), &t), nil
	case controlplane.Jobs:
		var j types.Job
		if !controlplane.Read(kv, &j) {
			return value, nil
		}
		user, err := s.user(k.Namespace, j.User, j.Labels, fresh)
		if err != nil || !fresh {
			return value, err
		}
		j.User = user
		return types.AppendEncode(nil, types.Batch(value), &j), nil
	case controlplane.Reservations:
		var r types.Reservation
		if !fresh || !controlplane.Read(kv, &r) {
			return value, nil
		}
		return value, s.chargesReservation(checks, k.Namespace, &r)
	case controlplane.Resources:
		return value, checks.Deletes(key)
	case controlplane.Policies:
		var p types.Policies
		if checks != nil && controlplane.Read(kv, &p) {
			return value, checks.Declares(k.Namespace, k.ID, &p)
		}
	}
	return value, nil
}

// user returns the user of a new object: its label, which only some may set to another user, else the
// submitter. An object that is there keeps its user, and its label may name only that.
func (s Submitter) user(ns, is string, labels []types.Label, fresh bool) (string, error) {
	label := types.LabelMap(labels)[Label]
	switch {
	case !fresh && (is == "" || label == "" || label == is):
		return is, nil
	case label == "":
		return s.User, nil
	}
	return label, s.Act("labels."+Label, ns, label, "leave it out")
}

// vectors returns the request vectors of a task, of which it has one.
func vectors(t *types.Task) []types.Requests {
	if len(t.Alternatives) == 0 {
		return []types.Requests{t.Requests}
	}
	var all []types.Requests
	for _, a := range t.Alternatives {
		all = append(all, t.Requests.Plus(a.Requests))
	}
	return all
}

// chargesTask is charges for all vectors of a task.
func (s Submitter) chargesTask(checks *Checks, ns, user string, t *types.Task) error {
	for _, requests := range vectors(t) {
		if err := s.charges(checks, ns, user, requests, false); err != nil {
			return err
		}
	}
	return nil
}

// chargesReservation is charges for all bundles of a reservation.
func (s Submitter) chargesReservation(checks *Checks, ns string, r *types.Reservation) error {
	for _, b := range r.Bundles {
		if err := s.charges(checks, ns, s.User, b.Requests, r.Job == ""); err != nil {
			return err
		}
	}
	return nil
}

// Changes returns nil if a submitter may put a task or reservation in the place of one that is there: what it
// requests is the same, or what a new one may request. Denied: it may not.
func (s Submitter) Changes(checks *Checks, ns string, is, was types.Message) error {
	switch is := is.(type) {
	case *types.Task:
		if before, ok := was.(*types.Task); ok && reflect.DeepEqual(vectors(is), vectors(before)) {
			return nil
		}
		return s.chargesTask(checks, ns, is.User, is)
	case *types.Reservation:
		if before, ok := was.(*types.Reservation); ok && reflect.DeepEqual(is.Bundles, before.Bundles) {
			return nil
		}
		return s.chargesReservation(checks, ns, is)
	}
	return nil
}

// charges refuses requests of the share of a user other than the one for whom they are, and those that do
// not draw on a share as the checks want.
func (s Submitter) charges(checks *Checks, ns, user string, requests types.Requests, reserves bool) error {
	if checks == nil {
		return nil
	}
	if err := checks.Draws(ns, requests, reserves); err != nil {
		return err
	}
	for _, r := range requests {
		name, _, _ := strings.Cut(r.Name, "@")
		if payer := checks.Payer(name); payer != "" && payer != user {
			if err := s.Act("requests."+types.Cut(name, types.MaxName), ns, payer, "leave the user out of the share"); err != nil {
				return err
			}
		}
	}
	return nil
}
