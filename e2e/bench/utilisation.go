package bench

import (
	"context"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

// addUtilisation adds the allocated shares of processors, memory and devices of the nodes, and the
// largest of them.
func addUtilisation(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
	has, used := make(map[string]float64), make(map[string]float64)
	err := eachValue(ctx, c.Store, controlplane.Prefix(controlplane.Nodes), func(kv controlplane.KV) error {
		var n types.Node
		if err := types.Decode(kv.Value, &n); err != nil {
			return err
		}
		for _, x := range n.Capacity {
			has[x.Name] += float64(x.Amount)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = eachValue(ctx, c.Store, controlplane.Prefix(controlplane.Allocated), func(kv controlplane.KV) error {
		var a types.Allocated
		if err := types.Decode(kv.Value, &a); err != nil {
			return err
		}
		for _, x := range a.Holds {
			used[string(x.Resource)] += float64(x.Amount)
		}
		return nil
	})
	for _, name := range []string{string(types.CPU), string(types.Memory), string(types.GPU)} {
		if has[name] > 0 && used[name] > 0 {
			found["utilisation_"+name] = used[name] / has[name]
			found["utilisation"] = max(found["utilisation"], used[name]/has[name])
		}
	}
	return err
}

// valuesAtOnce is the number of keys per read.
const valuesAtOnce = 1000

// eachValue reads all keys below a prefix, not all at one revision.
func eachValue(ctx context.Context, store controlplane.Store, prefix string, do func(controlplane.KV) error) error {
	after := ""
	for {
		page, err := store.List(ctx, controlplane.ListOptions{Prefix: prefix, After: after, Limit: valuesAtOnce})
		if err != nil {
			return err
		}
		for _, kv := range page.KVs {
			if err := do(kv); err != nil {
				return err
			}
			after = kv.Key
		}
		if !page.More {
			return nil
		}
	}
}
