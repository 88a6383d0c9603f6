package controlplane

import (
	"cmp"
	"context"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Over returns the value to store while a namespace uses more of a budget than it is allowed.
// budget is the flag of escher namespace set without its prefix: keys for max-keys.
func Over(budget, used, allowed string) *types.Admission {
	return &types.Admission{Budget: budget, Reason: "max-" + budget + ": " + allowed + " allowed, " + used + " used"}
}

// ifInBudget makes a change that adds to the namespace depend on its budget. The leading server
// puts the compared key when the budget is used up.
func (c *Client) ifInBudget(change *Change) {
	change.IfUnchanged(NamespaceAdmissionKey(c.ns), 0)
}

// inBudget returns why the namespace may not grow: Precondition. keys are compared keys as they
// were found; the result is nil unless one of them says that the budget is used up.
func (c *Client) inBudget(ctx context.Context, s Store, keys []KV) error {
	for _, kv := range keys {
		if kv.Key != NamespaceAdmissionKey(c.ns) || kv.ModRevision == 0 {
			continue
		}
		found, err := Get(ctx, s, kv.Key)
		if err != nil || found.ModRevision == 0 {
			return err
		}
		return OverBudget(c.ns, usedUp(found))
	}
	return nil
}

// settings returns an administrator's settings of the namespace, nil if there are none, and makes
// the change depend on them. With guesses it uses what the client remembers, or assumes no
// settings.
func (c *Client) settings(ctx context.Context, s Store, change *Change, guesses bool) (*types.Namespace, error) {
	key := NamespaceKey(c.ns)
	kv, ok := c.known.get(key)
	switch {
	case !guesses:
		var err error
		if kv, err = Get(ctx, s, key); err != nil {
			return nil, err
		}
		c.known.set(kv)
	case !ok:
		kv = KV{Key: key}
	}
	change.IfUnchanged(key, kv.ModRevision)
	var n types.Namespace
	if kv.ModRevision == 0 || !Read(kv, &n) {
		return nil, nil
	}
	return &n, nil
}

// Allows checks a priority, and the use of accumulation, against the budget of a namespace:
// Precondition.
func Allows(n *types.Namespace, ns, field string, priority int, accumulate bool) error {
	b := n.Allowed()
	if most := b.Priority.Max; priority > most {
		return types.Errorf(types.Precondition, "%spriority: %d is above %d, the highest of namespace %s: lower it, or have an administrator allow more: %s",
			field, priority, most, ns, action.RaiseBudget.Of(ns, "max-priority"))
	}
	if accumulate && b.NoAccumulate {
		return types.Errorf(types.Precondition, "%saccumulate: namespace %s may not accumulate: leave it out, or have an administrator allow it: %s",
			field, ns, action.RaiseBudget.Of(ns, "accumulate"))
	}
	return nil
}

// OverBudget returns the error for a namespace that has used up a budget: Precondition.
func OverBudget(ns string, a *types.Admission) error {
	mends := action.DeleteUnneeded
	if a.Budget == "pending" {
		mends = action.StopSome
	}
	return types.Errorf(types.Precondition, "namespace %s is over its budget: %s: %s, or have an administrator allow more: %s",
		ns, a.Reason, mends.Of(), action.RaiseBudget.Of(ns, "max-"+cmp.Or(a.Budget, "keys")))
}
