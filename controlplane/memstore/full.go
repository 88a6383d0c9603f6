package memstore

import (
	"context"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// defaultQuota is the quota of Escher's own etcd.
const defaultQuota = 8 << 30

// versionBytes estimates the size of one version of a key in etcd's database besides key and value.
const versionBytes = 64

// WithQuota bounds the database, in bytes. The transaction that would exceed the quota is refused
// and raises the alarm: see SetFull.
func WithQuota(bytes int64) Option {
	return func(s *Store) { s.quota = bytes }
}

// SetFull raises or clears the alarm of a full store. While it is raised, the store refuses every
// put and every new lease with controlplane.ErrFull. Reads, deletions, renewals, revocations and
// compaction still work.
func (s *Store) SetFull(_ context.Context, full bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = full
	return nil
}

// Maintenance returns the maintenance of the store.
func (s *Store) Maintenance() controlplane.Maintenance { return maintenance{s} }

type maintenance struct{ s *Store }

// Usage implements controlplane.Maintenance.
func (m maintenance) Usage(context.Context) (controlplane.Usage, error) {
	m.s.mu.RLock()
	defer m.s.mu.RUnlock()
	return m.s.usage(), nil
}

func (s *Store) usage() controlplane.Usage {
	return controlplane.Usage{Revision: s.revision, InUse: s.used, File: s.file, Quota: s.quota, Alarm: s.full}
}

// Compact implements controlplane.Maintenance.
func (m maintenance) Compact(ctx context.Context, revision int64) error {
	if err := m.s.Compact(ctx, revision); !types.Is(err, types.Compacted) {
		return err
	}
	return nil
}

// Defragment implements controlplane.Maintenance.
func (m maintenance) Defragment(context.Context) error {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	m.s.file = m.s.used
	if m.s.full && !m.s.usage().Roomy() {
		return types.Errorf(types.Precondition, "defragment: %w", controlplane.ErrFull)
	}
	m.s.full = false
	return nil
}

// admit refuses what a full store refuses: puts and leases of a size, in bytes.
func (s *Store) admit(what string, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	if s.full = s.full || s.file+bytes >= s.quota; s.full {
		return types.Errorf(types.Precondition, "%s: %w", what, controlplane.ErrFull)
	}
	return nil
}

// asEtcdSays returns the error of a transaction that a full store refuses. For an unguarded one,
// the etcd store cannot tell a refusal from the transaction that reached the quota, which is
// applied.
func asEtcdSays(txn controlplane.Txn, err error) error {
	if txn.Guarded() {
		return err
	}
	return types.Errorf(types.Unknown, "commit: it may have been applied: %w", err)
}

// putBytes estimates the size of a transaction's puts in the database; 0 without any.
func putBytes(ops []controlplane.Op) (bytes int64) {
	for _, op := range ops {
		if !op.Delete {
			bytes += versionBytes + int64(len(op.Key)+len(op.Value))
		}
	}
	return bytes
}

// grow counts a version that was added, or with sign -1 dropped. The file reuses its free space
// first.
func (s *Store) grow(version controlplane.Event, sign int64) {
	s.used += sign * (versionBytes + int64(len(version.Key)+len(version.Value)))
	s.file = max(s.file, s.used)
}
