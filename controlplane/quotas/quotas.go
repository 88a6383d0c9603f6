// Package quotas keeps the pools of quotas that are amounts, such as 16 gpu for a namespace. A quota is a
// pool that requests draw on; the pools of this package are in a namespace of their own.
package quotas

import (
	"context"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Namespace is the namespace of the pools. The right to write resources there is the right to change quotas.
const Namespace = "quotas"

// Parse reads a quota of a namespace: an amount of the resource, such as 16 or 64Gi, or the pool that
// requests draw on, with its namespace. Invalid: it is neither.
func Parse(ns, resource, text string) (types.Quota, error) {
	q := types.Quota{Resource: types.ResourceID(resource), Pool: types.ResourceID(text)}
	if strings.HasPrefix(text, Namespace+":") {
		return q, types.Errorf(types.Invalid, "quotas.%s: %q is the pool of an amount: give the amount", types.Cut(resource, types.MaxName), types.Cut(text, types.MaxName))
	}
	if strings.Contains(text, ":") {
		return q, nil
	}
	amount, err := types.ParseQuantity(resource, text)
	if err == nil && (amount < 0 || amount > types.MaxQuantity) {
		err = types.Errorf(types.Invalid, "%q is out of range", text)
	}
	if err != nil {
		return q, types.Errorf(types.Invalid, "quotas.%s: %w: give an amount, such as 16, or a pool with its namespace, such as admin:cpus", types.Cut(resource, types.MaxName), err)
	}
	name := ns + "." + strings.ReplaceAll(resource, "/", ".")
	if len(name) > types.MaxName {
		return q, types.Errorf(types.Invalid, "quotas.%s: the names of namespace and resource have %d bytes together: at most %d are allowed; make a pool, and name that", types.Cut(resource, types.MaxName), len(name)-1, types.MaxName-1)
	}
	q.Pool, q.Amount = types.ResourceID(Namespace+":"+name), amount
	return q, nil
}

// Text returns what Parse reads.
func Text(q types.Quota) string {
	if IsAmount(q) {
		return q.Amount.Format(q.Resource)
	}
	return string(q.Pool)
}

// IsAmount reports whether a quota is an amount, with a pool of this package.
func IsAmount(q types.Quota) bool { return strings.HasPrefix(string(q.Pool), Namespace+":") }

// Create stores the settings of a namespace, with the pools of its quotas. Without its pool, a task waits.
// Errors are those of CreateNamespace and SetResource.
func Create(ctx context.Context, c *controlplane.Client, ns string, n types.Namespace) error {
	if err := c.CreateNamespace(ctx, ns, n); err != nil {
		return err
	}
	return makePools(ctx, c, n.Quotas)
}

// Set changes the settings of a namespace, with the pools of its quotas. The pools are there before the
// settings refer to them. Errors are those of SetNamespace and SetResource.
func Set(ctx context.Context, c *controlplane.Client, ns string, change func(*types.Namespace) error) error {
	var was, is []types.Quota
	err := c.SetNamespace(ctx, ns, func(n *types.Namespace) error {
		was = slices.Clone(n.Quotas)
		if err := change(n); err != nil {
			return err
		}
		is = n.Quotas
		if err := n.Validate(); err != nil {
			return err
		}
		return makePools(ctx, c, is)
	})
	if err != nil {
		return err
	}
	return removePools(ctx, c, was, is)
}

// Remove deletes the settings of a namespace, and the pools of its quotas. Errors are those of
// RemoveNamespace and SetResource.
func Remove(ctx context.Context, c *controlplane.Client, ns string) error {
	was, err := c.GetNamespace(ctx, ns)
	if err != nil && !types.Is(err, types.NotFound) {
		return err
	}
	if err := c.RemoveNamespace(ctx, ns); err != nil {
		return err
	}
	return removePools(ctx, c, was.Quotas, nil)
}

// makePools makes the pools of quotas that are amounts.
func makePools(ctx context.Context, c *controlplane.Client, all []types.Quota) error {
	for _, q := range all {
		if !IsAmount(q) {
			continue
		}
		if err := setPool(ctx, c, q, controlplane.SetOptions{Declare: true}); err != nil {
			return err
		}
	}
	return nil
}

// removePools removes the pools of former quotas.
func removePools(ctx context.Context, c *controlplane.Client, was, is []types.Quota) error {
	for _, q := range was {
		if !IsAmount(q) || slices.ContainsFunc(is, func(x types.Quota) bool { return x.Pool == q.Pool }) {
			continue
		}
		q.Amount = 0
		if err := setPool(ctx, c, q, controlplane.SetOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// setPool sets the capacity of the pool of a quota.
func setPool(ctx context.Context, c *controlplane.Client, q types.Quota, opts controlplane.SetOptions) error {
	pools, err := controlplane.New(c.Store(), Namespace)
	if err != nil {
		return err
	}
	_, err = pools.SetResource(ctx, strings.TrimPrefix(string(q.Pool), Namespace+":"), q.Amount, controlplane.InCluster(), opts)
	return err
}

// Reserved reports whether all that is requested of a node comes from reservations: it counted when they were
// granted.
func Reserved(r types.Requests) bool {
	any := false
	for _, x := range r {
		switch scoped := strings.Contains(x.Name, "@"); {
		case scoped:
			any = true
		case types.IsPhysical(x.Name) && !types.ResourceID(x.Name).IsPlacement():
			return false
		}
	}
	return any
}
