package identity

import (
	"context"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/ids"
	"github.com/escher-sched/escher/types"
)

// Etcd identifies an etcd cluster and its progress.
type Etcd struct {
	// Cluster is the cluster id.
	Cluster string
	// Index is raft's committed index on a member that has reached Revision; 0 means unknown.
	Index, Revision int64
}

// restored reports whether the store was restored after its epoch and progress were written.
// etcdutl usually gives the restored cluster another id, and always begins a new raft log: the
// index starts over, while the revision continues from the backup. Within one history, a member
// that has reached the revision of the progress has passed its index.
func (e Etcd) restored(epoch *types.Epoch, progress controlplane.KV, was *types.Progress) bool {
	return epoch.Etcd != e.Cluster || e.Index != 0 && e.Index < was.Index && e.Revision >= progress.ModRevision
}

// due reports whether to write the progress again. That is often enough to notice a restore of any
// backup before the new history has as many entries, and rare once there are many.
func (e Etcd) due(was *types.Progress) bool {
	const least, part = 64, 8
	return e.Index > was.Index+was.Index/part+least
}

// KeepEpoch returns the epoch of the store: the id of its history. A restore from a backup ends a
// history. KeepEpoch creates the epoch if there is none, and replaces the epoch of a restored
// store. renewed reports whether the store was restored since its epoch was written.
func KeepEpoch(ctx context.Context, s controlplane.Store, etcd Etcd) (id string, renewed bool, err error) {
	for {
		kv, err := controlplane.Get(ctx, s, controlplane.EpochKey())
		if err != nil {
			return "", false, err
		}
		progress, err := controlplane.Get(ctx, s, controlplane.ProgressKey())
		if err != nil {
			return "", false, err
		}
		var now types.Epoch
		var was types.Progress
		controlplane.Read(progress, &was) // An unreadable value counts as no progress.
		there := kv.ModRevision != 0 && controlplane.Read(kv, &now)
		if there && !etcd.restored(&now, progress, &was) {
			if etcd.due(&was) {
				putProgress(ctx, s, kv, progress, etcd.Index)
			}
			return now.ID, renewed, nil
		}
		renewed = there
		if _, err := putEpoch(ctx, s, kv, etcd); err != nil {
			return "", false, err
		}
	}
}

// MarkRestored begins a new epoch after a restore from a backup, whatever the revision of the
// store. Every agent then ends what it began in the former epoch.
func MarkRestored(ctx context.Context, s controlplane.Store) (id string, err error) {
	for {
		kv, err := controlplane.Get(ctx, s, controlplane.EpochKey())
		if err != nil {
			return "", err
		}
		var now types.Epoch
		controlplane.Read(kv, &now) // An unreadable epoch has no etcd id: a server adds it.
		if id, err := putEpoch(ctx, s, kv, Etcd{Cluster: now.Etcd}); err != nil || id != "" {
			return id, err
		}
	}
}

// putEpoch replaces the epoch in read, and the progress of the former one. The id is empty if the
// epoch has changed since.
func putEpoch(ctx context.Context, s controlplane.Store, read controlplane.KV, etcd Etcd) (id string, err error) {
	c := controlplane.NewChange(controlplane.NewBatch())
	c.IfUnchanged(controlplane.EpochKey(), read.ModRevision)
	id = ids.New("epoch")
	c.Put(controlplane.EpochKey(), &types.Epoch{ID: id, Etcd: etcd.Cluster})
	c.Put(controlplane.ProgressKey(), &types.Progress{Index: etcd.Index})
	res, err := controlplane.Commit(ctx, s, c.Txn())
	if err != nil || !res.Committed {
		return "", err
	}
	return id, nil
}

// putProgress stores etcd's index for an epoch. It ignores errors: the next check tries again.
func putProgress(ctx context.Context, s controlplane.Store, epoch, read controlplane.KV, index int64) {
	c := controlplane.NewChange(controlplane.NewBatch())
	c.IfUnchanged(controlplane.EpochKey(), epoch.ModRevision)
	c.IfUnchanged(controlplane.ProgressKey(), read.ModRevision)
	c.Put(controlplane.ProgressKey(), &types.Progress{Index: index})
	_, _ = controlplane.Commit(ctx, s, c.Txn())
}
