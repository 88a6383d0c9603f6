package etcdstore

import (
	"context"
	"errors"
	"math"
	"sort"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/escher-sched/escher/controlplane"
)

// detectLimits finds etcd's limit of operations in a transaction. etcd does not report it, so at
// most a dozen transactions without effect try it out. patience bounds each of them.
func (s *Store) detectLimits(ctx context.Context, patience time.Duration) (controlplane.Limits, error) {
	limits := ServerLimits()
	bounded := func(ask func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := ask(ctx); err != nil {
			return s.fail(ctx, "ask for the limits", err)
		}
		return nil
	}
	failed := bounded(s.answers)
	allows := func(n int) (ok bool) {
		if failed == nil {
			failed = bounded(func(ctx context.Context) (err error) {
				ok, err = s.allows(ctx, n)
				return err
			})
		}
		return ok
	}
	if allows(limits.Ops) || failed != nil {
		return limits, failed
	}
	limits.Ops = sort.Search(limits.Ops, func(n int) bool { return !allows(n + 1) })
	return limits, failed
}

// answers returns nil if etcd decides transactions of this user. Its transaction only reads: no key
// has that revision.
func (s *Store) answers(ctx context.Context) error {
	key := []byte(controlplane.Root)
	_, err := s.send(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{compare(key, controlplane.Compare{Revision: math.MaxInt64})},
		Success: []*pb.RequestOp{readOf(key)},
	}, &txnAnswer{})
	return err
}

// emptyCompare is a compare without a key in the encoding of a transaction.
const emptyCompare = "\x0a\x00"

// allows reports whether a transaction may have n operations. etcd refuses one of too many before
// it looks at them, and any other for its empty keys: it decides none.
func (s *Store) allows(ctx context.Context, n int) (bool, error) {
	_, err := s.send(ctx, encoded(strings.Repeat(emptyCompare, n)), &txnAnswer{})
	switch answer := rpctypes.Error(err); {
	case errors.Is(answer, rpctypes.ErrTooManyOps):
		return false, nil
	case errors.Is(answer, rpctypes.ErrEmptyKey):
		return true, nil
	case err == nil:
		return false, errors.New("etcd decides transactions with empty keys")
	}
	return false, err
}
