package etcdstore

import (
	"context"
	"errors"
	"math"
	"sort"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/escher-sched/escher/controlplane"
)

// detectLimits finds how many operations a transaction may have. Etcd does not tell, so
// detectLimits tries transactions that do nothing, at most a dozen. Each may take as long as
// patience.
func (s *Store) detectLimits(ctx context.Context, patience time.Duration) (controlplane.Limits, error) {
	limits := ServerLimits()
	var failed error
	allows := func(n int) bool {
		if failed != nil {
			return false
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		ok, err := s.allows(ctx, n)
		failed = err
		return ok
	}
	if allows(limits.Ops) || failed != nil {
		return limits, failed
	}
	limits.Ops = sort.Search(limits.Ops, func(n int) bool { return !allows(n + 1) })
	return limits, failed
}

// allows reports whether a transaction may have n operations.
func (s *Store) allows(ctx context.Context, n int) (bool, error) {
	key := []byte(controlplane.Root)
	req := &pb.TxnRequest{
		// No key has that revision: what follows is counted, and not done.
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
