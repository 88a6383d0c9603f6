// Package etcdstore is the store of a cluster in etcd. It passes storetest.Run.
//
// It uses etcd's API over the connection of a clientv3.Client, so that it works with etcd, an
// embedded etcd and Escher's gateway alike. It bypasses clientv3 where that hides facts that a
// Store needs: whether a transaction was sent at all, and when a watch lost its stream.
package etcdstore

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Store is a controlplane.Store in etcd. Its methods may be called concurrently.
type Store struct {
	client   *clientv3.Client
	kv       pb.KVClient
	lease    pb.LeaseClient
	renewer  *renewer
	shared   *sharedWatches // nil means a stream for each watch
	watch    pb.WatchClient
	limits   controlplane.Limits
	metrics  *Metrics
	progress time.Duration
	// calls are the options of every call, raw those of calls with codec.
	calls, raw []grpc.CallOption
}

var _ controlplane.Store = (*Store)(nil)

// Option configures a Store in New.
type Option func(*Store)

// WithProgressInterval sets how often a quiet watch asks etcd for its progress. The default is 10
// s. Progress of a watch arrives at most that late.
func WithProgressInterval(d time.Duration) Option {
	return func(s *Store) { s.progress = d }
}

// WithMetrics makes the store count its requests.
func WithMetrics(m *Metrics) Option {
	return func(s *Store) { s.metrics = m }
}

// ServerLimits returns the limits of Escher's own etcd.
func ServerLimits() controlplane.Limits {
	return controlplane.Limits{Ops: 4096, Bytes: 1536 << 10}
}

// StockLimits returns the limits of an etcd started without flags.
func StockLimits() controlplane.Limits {
	return controlplane.Limits{Ops: 128, Bytes: 1536 << 10}
}

// New returns a store on a client, which the caller closes. limits are those that its etcd was
// started with.
func New(client *clientv3.Client, limits controlplane.Limits, opts ...Option) *Store {
	s := &Store{
		client:   client,
		kv:       clientv3.RetryKVClient(client),
		lease:    clientv3.RetryLeaseClient(client),
		watch:    pb.NewWatchClient(client.ActiveConnection()),
		limits:   limits,
		progress: 10 * time.Second,
		calls: []grpc.CallOption{
			grpc.MaxCallSendMsgSize(math.MaxInt32),
			grpc.MaxCallRecvMsgSize(math.MaxInt32),
		},
	}
	s.raw = append([]grpc.CallOption{grpc.ForceCodecV2(codec{})}, s.calls...)
	s.renewer = newRenewer(func(ctx context.Context) (pb.Lease_LeaseKeepAliveClient, error) {
		return s.lease.LeaseKeepAlive(ctx, s.calls...)
	})
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// Client returns the client of the store.
func (s *Store) Client() *clientv3.Client { return s.client }

// Close closes the client. Watches end, and calls fail.
func (s *Store) Close() error { return s.client.Close() }

// Limits returns the largest size of a transaction.
func (s *Store) Limits() controlplane.Limits { return s.limits }

// List reads a range of keys: see controlplane.Store. It is linearizable.
func (s *Store) List(ctx context.Context, opts controlplane.ListOptions) (page controlplane.Page, err error) {
	begin := time.Now()
	defer func() { s.metrics.answered("list", begin, err) }()
	if len(opts.Keys) > 0 {
		return s.listKeys(ctx, opts.Keys, opts.Revision)
	}
	req := &pb.RangeRequest{
		Limit:    int64(opts.Limit),
		Revision: opts.Revision,
		KeysOnly: opts.KeysOnly,
	}
	req.Key, req.RangeEnd = rangeOf(opts)
	resp, err := s.kv.Range(clientv3.WithRequireLeader(ctx), req, s.calls...)
	if err != nil {
		return controlplane.Page{}, s.fail(ctx, "list "+opts.Prefix+opts.Key, err)
	}
	page = controlplane.Page{Revision: opts.Revision, More: resp.More}
	if page.Revision == 0 {
		page.Revision = resp.Header.Revision
	}
	page.KVs = make([]controlplane.KV, len(resp.Kvs))
	for i, kv := range resp.Kvs {
		page.KVs[i] = keyValue(kv)
	}
	return page, nil
}

// listKeys reads single keys with one transaction that writes nothing, which etcd does not replicate.
func (s *Store) listKeys(ctx context.Context, keys []string, revision int64) (page controlplane.Page, err error) {
	if len(keys) > s.limits.Ops {
		return page, types.Errorf(types.Invalid, "list %d keys: etcd at %s reads %d at once: ask for fewer", len(keys), s.at(), s.limits.Ops)
	}
	req := &pb.TxnRequest{Success: make([]*pb.RequestOp, len(keys))}
	for i, key := range keys {
		req.Success[i] = rangeOp([]byte(key))
		req.Success[i].GetRequestRange().Revision = revision
	}
	var answer txnAnswer
	if _, err := s.send(ctx, req, &answer); err != nil {
		return page, s.fail(ctx, "list "+keys[0]+" and other keys", err)
	}
	page.Revision = cmp.Or(revision, answer.revision)
	page.KVs = slices.DeleteFunc(answer.found, func(kv controlplane.KV) bool { return kv.ModRevision == 0 })
	return page, nil
}

// rangeOf returns the range of a listing in etcd's terms.
func rangeOf(opts controlplane.ListOptions) (key, end []byte) {
	if opts.Key != "" {
		if opts.After >= opts.Key {
			// An empty interval.
			return []byte(opts.Key), []byte(opts.Key)
		}
		return []byte(opts.Key), nil
	}
	key, end = prefixRange(opts.Prefix)
	if opts.After != "" && opts.After >= opts.Prefix {
		key = []byte(opts.After + "\x00")
	}
	return key, end
}

// prefixRange returns the range of all keys with a prefix, all keys if it is "".
func prefixRange(prefix string) (key, end []byte) {
	if prefix == "" {
		return []byte{0}, []byte{0}
	}
	return []byte(prefix), []byte(PrefixEnd(prefix))
}

// PrefixEnd returns the end of the range of all keys with a prefix.
func PrefixEnd(prefix string) string { return clientv3.GetPrefixRangeEnd(prefix) }

// keyValue translates a key of etcd.
func keyValue(kv *mvccpb.KeyValue) controlplane.KV {
	return controlplane.KV{
		Key:            string(kv.Key),
		Value:          kv.Value,
		CreateRevision: kv.CreateRevision,
		ModRevision:    kv.ModRevision,
		Lease:          controlplane.LeaseID(kv.Lease),
	}
}

// Compact drops the history before a revision. Compacted: it is already gone. Invalid: the revision
// does not exist yet.
func (s *Store) Compact(ctx context.Context, revision int64) error {
	_, err := s.kv.Compact(ctx, &pb.CompactionRequest{Revision: revision}, s.calls...)
	if err != nil {
		return s.fail(ctx, "compact", err)
	}
	return nil
}

// GrantLease creates a lease: see controlplane.Store.
func (s *Store) GrantLease(ctx context.Context, ttl time.Duration) (id controlplane.LeaseID, err error) {
	begin := time.Now()
	defer func() { s.metrics.answered("grant", begin, err) }()
	if ttl <= 0 {
		return 0, types.Errorf(types.Invalid, "grant lease of %s: give a positive time to live", ttl)
	}
	seconds := int64((ttl + time.Second - 1) / time.Second)
	resp, err := s.lease.LeaseGrant(clientv3.WithRequireLeader(ctx), &pb.LeaseGrantRequest{TTL: seconds}, s.calls...)
	if err != nil {
		return 0, s.fail(ctx, "grant lease", err)
	}
	return controlplane.LeaseID(resp.ID), nil
}

// RenewLease renews a lease: see controlplane.Store.
func (s *Store) RenewLease(ctx context.Context, id controlplane.LeaseID) (ttl time.Duration, err error) {
	begin := time.Now()
	defer func() { s.metrics.answered("renew", begin, err) }()
	ttl, err = s.renewer.renew(ctx, int64(id))
	switch {
	case err != nil:
		return 0, s.fail(ctx, "renew "+leaseName(id), err)
	case ttl <= 0:
		return 0, types.Errorf(types.NotFound, "renew %s: it has ended", leaseName(id))
	}
	return ttl, nil
}

// RevokeLease ends a lease: see controlplane.Store.
func (s *Store) RevokeLease(ctx context.Context, id controlplane.LeaseID) (err error) {
	begin := time.Now()
	defer func() { s.metrics.answered("revoke", begin, err) }()
	_, err = s.lease.LeaseRevoke(clientv3.WithRequireLeader(ctx), &pb.LeaseRevokeRequest{ID: int64(id)}, s.calls...)
	if err == nil {
		return nil
	}
	if err = s.fail(ctx, "revoke "+leaseName(id), err); types.Is(err, types.NotFound) {
		return nil
	}
	return err
}
