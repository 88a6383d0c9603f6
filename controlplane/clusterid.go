package controlplane

import (
	"context"

	"github.com/escher-sched/escher/types"
)

// ClusterID returns the id of the cluster that the store is of. NotFound: no server
// has run on it yet.
func ClusterID(ctx context.Context, s Store) (string, error) {
	kv, err := get(ctx, s, ClusterKey())
	if err != nil {
		return "", err
	}
	if kv.ModRevision == 0 {
		return "", types.Errorf(types.NotFound, "find the cluster: no escher server has run on this etcd yet: start one")
	}
	var c types.Cluster
	if err := types.Decode(kv.Value, &c); err != nil {
		return "", err
	}
	return c.ID, types.ValidateName(ClusterKey(), c.ID)
}

// MakeClusterID returns the id of the cluster, making it when it is first asked for.
func MakeClusterID(ctx context.Context, s Store) (string, error) {
	id, err := ClusterID(ctx, s)
	if !types.Is(err, types.NotFound) {
		return id, err
	}
	c := NewChange(NewBatch())
	c.IfUnchanged(ClusterKey(), 0)
	c.Put(ClusterKey(), &types.Cluster{ID: NewID("cluster")})
	if _, err := Commit(ctx, s, c.Txn()); err != nil {
		return "", err
	}
	// Another server may have been first.
	return ClusterID(ctx, s)
}
