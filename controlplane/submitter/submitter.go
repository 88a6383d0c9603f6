// Package submitter records and checks for which user tasks are submitted.
package submitter

import (
	"context"
	"strings"

	"github.com/escher-sched/escher/controlplane"
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

// Rules are what the shares of users ask of what a submitter puts.
type Rules struct {
	// Payer returns the user whose share a resource is part of; empty if it is part of none.
	Payer func(resource string) string
	// Draws returns nil if requests of a namespace draw on the shares on which each of its tasks draws.
	// Denied: they do not.
	Draws func(ctx context.Context, ns string, requests types.Requests) error
	// Sets returns nil if a submitter may set or delete a resource of a namespace. Denied: a policy of
	// another namespace sets it.
	Sets func(ctx context.Context, ns, resource string) error
}

// Store is a store whose transactions record, in new tasks and jobs, their submitter. It
// refuses those that name another user, in a label or in a request, and what its rules refuse.
type Store struct {
	controlplane.Store
	// Rules are those of shares; nil means that there are no shares.
	Rules *Rules
	// Committed is called after each committed transaction; nil means that it is not.
	Committed func(ctx context.Context, txn controlplane.Txn, revision int64)
}

// Scan reads a range as the store below does.
func (s Store) Scan(ctx context.Context, opts controlplane.ListOptions, take func([]controlplane.KV) error) (int64, error) {
	return controlplane.Scan(ctx, s.Store, opts, take)
}

// Commit commits a transaction of the submitter of ctx. Denied: it names another user.
func (s Store) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	if by := From(ctx); by.User != "" {
		var err error
		if txn.Ops, err = s.recorded(ctx, by, txn); err != nil {
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
func (s Store) recorded(ctx context.Context, by Submitter, txn controlplane.Txn) ([]controlplane.Op, error) {
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
			err = Deletes(ctx, s.Rules, op.Key)
		} else {
			ops[i].Value, err = by.Recorded(ctx, s.Rules, op.Key, op.Value, !there[op.Key])
		}
		if err != nil {
			return nil, err
		}
	}
	return ops, nil
}

// Deletes returns nil if a submitter may delete a key. rules are Store.Rules. Denied: a policy of another
// namespace sets it.
func Deletes(ctx context.Context, rules *Rules, key string) error {
	if k, ok := controlplane.Parse(key); ok && rules != nil && k.Kind == controlplane.Resources {
		if err := rules.Sets(ctx, k.Namespace, k.Name); err != nil {
			return types.Errorf(types.ClassOf(err), "resource %s: %w", k.Name, err)
		}
	}
	return nil
}

// Recorded returns the value to put for a key, with the user in a new task or job. rules are Store.Rules,
// and fresh reports whether the transaction makes the key. Denied: the value names another user, or the
// rules refuse it.
func (s Submitter) Recorded(ctx context.Context, rules *Rules, key string, value []byte, fresh bool) ([]byte, error) {
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
		for _, requests := range vectors(&t) {
			if err := s.charges(ctx, rules, k.Namespace, user, requests); err != nil {
				return nil, err
			}
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
		for _, b := range r.Bundles {
			if err := s.charges(ctx, rules, k.Namespace, s.User, b.Requests); err != nil {
				return nil, err
			}
		}
	case controlplane.Resources:
		return value, Deletes(ctx, rules, key)
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

// charges refuses requests of the share of a user other than the one for whom they are, and those that do
// not draw on a share as the rules want.
func (s Submitter) charges(ctx context.Context, rules *Rules, ns, user string, requests types.Requests) error {
	if rules == nil {
		return nil
	}
	if err := rules.Draws(ctx, ns, requests); err != nil {
		return err
	}
	for _, r := range requests {
		name, _, _ := strings.Cut(r.Name, "@")
		if payer := rules.Payer(name); payer != "" && payer != user {
			if err := s.Act("requests."+types.Cut(name, types.MaxName), ns, payer, "leave the user out of the share"); err != nil {
				return err
			}
		}
	}
	return nil
}
