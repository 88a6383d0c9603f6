package identity

import (
	"context"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/ids"
	"github.com/escher-sched/escher/types"
)

// ClusterID returns the id of the store's cluster. NotFound: no server has run on it yet, or its
// value is unreadable.
func ClusterID(ctx context.Context, s controlplane.Store) (string, error) {
	kv, err := controlplane.Get(ctx, s, controlplane.ClusterKey())
	if err != nil {
		return "", err
	}
	if kv.ModRevision == 0 {
		return "", types.Errorf(types.NotFound, "find the cluster: no server has run on this etcd yet: start one")
	}
	var c types.Cluster
	if !controlplane.Read(kv, &c) || types.ValidateName(controlplane.ClusterKey(), c.ID) != nil {
		return "", controlplane.Unreadable(kv.Key)
	}
	return c.ID, nil
}

// MakeClusterID returns the id of the cluster, and creates it on first use. It replaces an
// unreadable id.
func MakeClusterID(ctx context.Context, s controlplane.Store) (string, error) {
	id, err := ClusterID(ctx, s)
	if !types.Is(err, types.NotFound) {
		return id, err
	}
	there, err := controlplane.Get(ctx, s, controlplane.ClusterKey())
	if err != nil {
		return "", err
	}
	c := controlplane.NewChange(controlplane.NewBatch())
	c.IfUnchanged(controlplane.ClusterKey(), there.ModRevision)
	c.Put(controlplane.ClusterKey(), &types.Cluster{ID: ids.New("cluster")})
	if _, err := controlplane.Commit(ctx, s, c.Txn()); err != nil {
		return "", err
	}
	// Another server may have won.
	return ClusterID(ctx, s)
}
