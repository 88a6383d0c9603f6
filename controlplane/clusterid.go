package controlplane

import (
	"context"

	"github.com/escher-sched/escher/types"
)

// ClusterID returns the id of the store's cluster. NotFound: no server has run on it yet, or its
// value is unreadable.
func ClusterID(ctx context.Context, s Store) (string, error) {
	kv, err := get(ctx, s, ClusterKey())
	if err != nil {
		return "", err
	}
	if kv.ModRevision == 0 {
		return "", types.Errorf(types.NotFound, "find the cluster: no server has run on this etcd yet: start one")
	}
	var c types.Cluster
	if !Read(kv, &c) || types.ValidateName(ClusterKey(), c.ID) != nil {
		return "", unreadable(kv.Key)
	}
	return c.ID, nil
}

// MakeClusterID returns the id of the cluster, and creates it on first use. It replaces an
// unreadable id.
func MakeClusterID(ctx context.Context, s Store) (string, error) {
	id, err := ClusterID(ctx, s)
	if !types.Is(err, types.NotFound) {
		return id, err
	}
	there, err := get(ctx, s, ClusterKey())
	if err != nil {
		return "", err
	}
	c := NewChange(NewBatch())
	c.IfUnchanged(ClusterKey(), there.ModRevision)
	c.Put(ClusterKey(), &types.Cluster{ID: NewID("cluster")})
	if _, err := Commit(ctx, s, c.Txn()); err != nil {
		return "", err
	}
	// Another server may have won.
	return ClusterID(ctx, s)
}
