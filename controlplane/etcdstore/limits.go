package etcdstore

import (
	"context"
	"errors"
	"math"
	"sort"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/escher-sched/escher/controlplane"
)

// detectLimits finds etcd's limit of operations in a transaction. etcd does not report it, so at
// most a dozen transactions without effect try it out.
func (s *Store) detectLimits(ctx context.Context) (controlplane.Limits, error) {
	limits := ServerLimits()
	if ok, err := s.allows(ctx, limits.Ops); ok || err != nil {
		return limits, err
	}
	var failed error
	limits.Ops = sort.Search(limits.Ops, func(n int) bool {
		ok, err := s.allows(ctx, n+1)
		failed = errors.Join(failed, err)
		return !ok
	})
	return limits, failed
}

// allows reports whether a transaction may have n operations.
func (s *Store) allows(ctx context.Context, n int) (bool, error) {
	key := []byte(controlplane.Root)
	req := &pb.TxnRequest{
		// No key has that revision, so etcd counts the operations but does not perform them.
		Compare: []*pb.Compare{compare(key, controlplane.Compare{Revision: math.MaxInt64})},
		Success: make([]*pb.RequestOp, n),
	}
	for i := range req.Success {
		req.Success[i] = readOf(key)
	}
	_, err := s.send(ctx, req, &txnAnswer{})
	if errors.Is(rpctypes.Error(err), rpctypes.ErrTooManyOps) {
		return false, nil
	}
	if err != nil {
		return false, s.fail(ctx, "ask for the limits", err)
	}
	return true, nil
}
