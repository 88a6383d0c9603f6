package rig

import (
	"context"
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Put commits one key.
func (c *Cluster) Put(ctx context.Context, key string, m types.Message) (revision int64, err error) {
	x := controlplane.NewChange(controlplane.NewBatch())
	x.Put(key, m)
	res, err := controlplane.Commit(ctx, c.Store, x.Txn())
	return res.Revision, err
}

// Keys returns the keys of a kind, with their values.
func (c *Cluster) Keys(ctx context.Context, kind controlplane.Kind) ([]controlplane.KV, error) {
	kvs, _, err := controlplane.ListAll(ctx, c.Store, controlplane.ListOptions{Prefix: controlplane.Prefix(kind)})
	return kvs, err
}

// WaitGone waits until there are no keys of a kind.
func (c *Cluster) WaitGone(ctx context.Context, kind controlplane.Kind) error {
	for {
		kvs, err := c.Keys(ctx, kind)
		if err != nil || len(kvs) == 0 {
			return err
		}
		if err := Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// FloorRoot is the prefix of the keys that measure etcd alone.
const FloorRoot = "/floor/"

// PutFloor puts one key of the size of a resource, without compares.
func (c *Cluster) PutFloor(ctx context.Context, i int) error {
	x := controlplane.NewChange(controlplane.NewBatch())
	x.Put(fmt.Sprintf("%sput/%07d/resource/%s", FloorRoot, i, NodeName(0)), &types.Resource{Capacity: 1000, NodeSession: int64(i + 1)})
	_, err := c.Store.Commit(ctx, x.Txn())
	return err
}
