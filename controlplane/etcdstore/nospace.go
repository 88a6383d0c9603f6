package etcdstore

import (
	"bytes"
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// settleNoSpace decides about a transaction that etcd answered with "no space". That is a refusal,
// with one exception: etcd applies the transaction that crosses the quota, and gives the same
// answer. Either has happened by now, so one read decides:
//
//   - Its compares hold, including one of a key that it writes: it was refused.
//   - The values that it puts exist, at one revision: it was applied.
//   - Otherwise, if its compares do not hold, it has lost, or would have.
//
// A transaction without such a compare remains Unknown.
func (s *Store) settleNoSpace(ctx context.Context, txn controlplane.Txn, noSpace error) (controlplane.Result, error) {
	unknown := types.Errorf(types.Unknown, "commit: it may have been applied: etcd at %s: %w", s.at(), cause(ctx, noSpace))
	req := request(txn)
	read := &pb.TxnRequest{Compare: req.Compare, Failure: slices.Clip(req.Failure)}
	for _, op := range req.Success {
		if put := op.GetRequestPut(); put != nil {
			read.Success = append(read.Success, rangeOp(put.Key))
		}
	}
	read.Failure = append(read.Failure, read.Success...)
	resp := &pb.TxnResponse{}
	if _, err := s.send(ctx, read, resp); err != nil {
		return controlplane.Result{}, unknown
	}
	if resp.Succeeded && txn.Guarded() {
		return controlplane.Result{}, s.fail(ctx, "commit", noSpace)
	}
	values := resp.Responses[len(resp.Responses)-len(read.Success):]
	if revision := putAt(req.Success, values); revision != 0 {
		return controlplane.Result{Committed: true, Revision: revision}, nil
	}
	if resp.Succeeded {
		return controlplane.Result{}, unknown
	}
	return refusal(resp.Header.Revision, txn.Compares, readsOf(resp.Responses[:len(req.Failure)])), nil
}

func rangeOp(key []byte) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}
}

// putAt returns the revision of all puts of a transaction, given the present values of their keys;
// 0 if they were not made.
func putAt(ops []*pb.RequestOp, values []*pb.ResponseOp) int64 {
	revision := int64(0)
	for _, op := range ops {
		put := op.GetRequestPut()
		if put == nil {
			continue
		}
		kvs := values[0].GetResponseRange().GetKvs()
		values = values[1:]
		if len(kvs) != 1 || !bytes.Equal(kvs[0].Value, put.Value) || revision != 0 && kvs[0].ModRevision != revision {
			return 0
		}
		revision = kvs[0].ModRevision
	}
	return revision
}
