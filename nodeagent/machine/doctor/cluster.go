package doctor

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/identity"
	"github.com/escher-sched/escher/types"
)

// gatherCluster is lookAtCluster with a time limit: its files may be on a hanging disk.
func gatherCluster(ctx context.Context, plan Plan, src Source) (*Etcd, *Cluster) {
	type answer struct {
		etcd    *Etcd
		cluster *Cluster
	}
	a, ok := within(ctx, 4*probeWait, func(ctx context.Context) answer {
		e, c := lookAtCluster(ctx, plan, src)
		return answer{e, c}
	})
	if !ok {
		return &Etcd{Error: errHangs.Error()}, nil
	}
	return a.etcd, a.cluster
}

// lookAtCluster connects to each endpoint, and reads the state of the cluster through any that
// answers.
func lookAtCluster(ctx context.Context, plan Plan, src Source) (*Etcd, *Cluster) {
	at := src.Etcd
	if len(at.Endpoints) == 0 {
		return nil, nil
	}
	e := &Etcd{Endpoints: make([]Endpoint, len(at.Endpoints))}
	var all sync.WaitGroup
	for i, address := range at.Endpoints {
		all.Go(func() { e.Endpoints[i] = endpoint(ctx, address, at) })
	}
	all.Wait()
	if at.Cert != "" {
		c, err := ownCertificate(at.Cert, at.Key, "")
		if e.Own = c; err != nil {
			e.OwnError = err.Error()
		}
		if info, err := os.Stat(at.Key); err == nil {
			e.KeyPath, e.KeyMode = at.Key, info.Mode().Perm()
		}
	}
	c, err := readCluster(ctx, plan, src)
	if err != nil {
		e.Error = err.Error()
	}
	return e, c
}

// readCluster reads the state of the cluster; nil and an error if it cannot.
func readCluster(ctx context.Context, plan Plan, src Source) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*probeWait)
	defer cancel()
	store, err := src.Etcd.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Close() }() // nothing was written
	c, err := lookInto(ctx, plan, store)
	if err != nil {
		return nil, err
	}
	if src.Usage != nil {
		// Without permission these stay unknown, which is no problem.
		c.InUse, c.Quota, c.Alarm, _ = src.Usage(ctx, store)
	}
	return c, nil
}

// lookInto reads the state of the cluster in a store.
func lookInto(ctx context.Context, plan Plan, store controlplane.Store) (*Cluster, error) {
	c := &Cluster{Ops: store.Limits().Ops, Servers: make(map[string]string), Versions: make(map[string]int), Bound: make(map[string]bool)}
	var err error
	if c.ID, err = identity.ClusterID(ctx, store); err != nil && !types.Is(err, types.NotFound) {
		return nil, err
	}
	for _, x := range []struct {
		prefix string
		take   func(k controlplane.Key, kv controlplane.KV)
	}{
		{controlplane.Prefix(controlplane.Schedulers), func(k controlplane.Key, kv controlplane.KV) {
			var l types.Leader
			_ = types.Decode(kv.Value, &l) // it exists, whatever it contains
			c.Servers[k.ID] = l.Version
		}},
		{controlplane.AliveKey(plan.Node), func(_ controlplane.Key, kv controlplane.KV) { c.Lease = int64(kv.Lease) }},
		{controlplane.Prefix(controlplane.Nodes), func(k controlplane.Key, kv controlplane.KV) {
			var n types.Node
			if types.Decode(kv.Value, &n) != nil {
				return
			}
			c.Versions[n.Version]++
			if k.Node == plan.Node {
				c.Version = n.Version
			}
		}},
		{controlplane.Prefix(controlplane.Bindings, plan.Node), func(k controlplane.Key, _ controlplane.KV) {
			c.Bound[boundText(k.Namespace, k.ID, k.Attempt)] = true
		}},
	} {
		kvs, _, err := controlplane.ListAll(ctx, store, controlplane.ListOptions{Prefix: x.prefix})
		if err != nil {
			return nil, err
		}
		for _, kv := range kvs {
			if k, ok := controlplane.Parse(kv.Key); ok && (k.Kind != controlplane.Alive || k.Node == plan.Node) {
				x.take(k, kv)
			}
		}
	}
	return c, nil
}

// boundText returns the key of an attempt in Cluster.Bound.
func boundText(ns, id string, attempt int) string { return fmt.Sprintf("%s/%s/%d", ns, id, attempt) }
