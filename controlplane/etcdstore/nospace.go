package etcdstore

import (
	"bytes"
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// settleNoSpace says what became of a transaction that etcd answered with "no
// space". That is a refusal, but for the one that crosses the quota, which etcd
// applies and then answers in the same way. Either is done by now, so one read
// tells:
//
//   - its compares hold, of a key that it writes too: it was refused;
//   - what it puts is there, at one revision: it was applied;
//   - its compares do not hold otherwise: it has lost, or would have.
//
// What is left, a transaction without such a compare, stays Unknown.
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

// putAt returns the revision at which all the puts of a transaction were made,
// going by the values that were read of their keys; 0 when they were not.
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
