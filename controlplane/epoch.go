package controlplane

import (
	"context"

	"github.com/escher-sched/escher/types"
)

// KeepEpoch returns the epoch of the store: the id of its history, which a restore from a
// backup ends. etcd identifies the cluster of etcd members. An epoch of another one, or
// none, is replaced: the restore of a snapshot makes a new cluster of members. renewed
// reports that the store was restored since its epoch was written.
func KeepEpoch(ctx context.Context, s Store, etcd string) (id string, renewed bool, err error) {
	for {
		kv, err := get(ctx, s, EpochKey())
		if err != nil {
			return "", false, err
		}
		var now types.Epoch
		there := kv.ModRevision != 0 && Read(kv, &now)
		if there && now.Etcd == etcd {
			return now.ID, renewed, nil
		}
		renewed = there
		if _, err := putEpoch(ctx, s, kv, etcd); err != nil {
			return "", false, err
		}
	}
}

// MarkRestored begins a new epoch: the store was restored from a backup, whatever its
// revision is by now. Every agent ends what it began in the former epoch.
func MarkRestored(ctx context.Context, s Store) (id string, err error) {
	for {
		kv, err := get(ctx, s, EpochKey())
		if err != nil {
			return "", err
		}
		var now types.Epoch
		Read(kv, &now) // An epoch that cannot be read has no id of etcd: a server adds it.
		if id, err := putEpoch(ctx, s, kv, now.Etcd); err != nil || id != "" {
			return id, err
		}
	}
}

// putEpoch replaces the epoch that was read. The id is empty if the epoch has changed since.
func putEpoch(ctx context.Context, s Store, read KV, etcd string) (id string, err error) {
	c := NewChange(NewBatch())
	c.IfUnchanged(EpochKey(), read.ModRevision)
	id = NewID("epoch")
	c.Put(EpochKey(), &types.Epoch{ID: id, Etcd: etcd})
	res, err := Commit(ctx, s, c.Txn())
	if err != nil || !res.Committed {
		return "", err
	}
	return id, nil
}
