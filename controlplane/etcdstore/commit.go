package etcdstore

import (
	"context"
	"errors"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Commit applies a transaction: see controlplane.Store. It is sent once.
func (s *Store) Commit(ctx context.Context, txn controlplane.Txn) (res controlplane.Result, err error) {
	begin := time.Now()
	defer func() { s.metrics.answered("commit", begin, err) }()
	if err := s.checkCounts(txn); err != nil {
		return controlplane.Result{}, err
	}
	req, err := s.request(txn)
	if err != nil {
		return controlplane.Result{}, err
	}
	resp, sent, err := s.send(ctx, req)
	if err != nil && sent && isNoSpace(err) {
		return s.settleNoSpace(ctx, txn, req, err)
	}
	if err != nil {
		return controlplane.Result{}, s.failCommit(ctx, err, sent)
	}
	result := controlplane.Result{Committed: resp.Succeeded, Revision: resp.Header.Revision}
	if !resp.Succeeded {
		result.Read = readBack(txn.Compares, req.Failure, resp.Responses)
	}
	return result, nil
}

// send sends a transaction once and tells whether any of it may have left this
// process: without a connection gRPC makes no stream.
//
// It is the unary call by hand, because clientv3 repeats a unary call, a write
// too, whose answer has the code DeadlineExceeded or Canceled while ctx is not
// done. The second would not find its compares holding, and a transaction that
// was applied would pass for one that lost.
func (s *Store) send(ctx context.Context, req *pb.TxnRequest) (resp *pb.TxnResponse, sent bool, err error) {
	if ctx.Err() != nil {
		return nil, false, ctx.Err()
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	stream, err := s.client.ActiveConnection().NewStream(ctx, &grpc.StreamDesc{}, pb.KV_Txn_FullMethodName, s.calls...)
	if err != nil {
		return nil, false, err
	}
	resp = &pb.TxnResponse{}
	// io.EOF means that the status, which RecvMsg returns, came before the end.
	if err = stream.SendMsg(req); err == nil || errors.Is(err, io.EOF) {
		err = stream.RecvMsg(resp)
	}
	return resp, true, err
}

// checkCounts compares a transaction with the limit of operations.
func (s *Store) checkCounts(txn controlplane.Txn) error {
	if max(len(txn.Compares), len(txn.Ops)) > s.limits.Ops {
		return types.Errorf(types.Invalid,
			"commit %d compares and %d operations: etcd at %s allows %d of each; split the transaction, or start etcd with a larger --max-txn-ops",
			len(txn.Compares), len(txn.Ops), s.at(), s.limits.Ops)
	}
	return nil
}

// request translates a transaction. Its failure branch reads each compared key
// once, in the order in which the compares first name them.
func (s *Store) request(txn controlplane.Txn) (*pb.TxnRequest, error) {
	req := &pb.TxnRequest{
		Compare: make([]*pb.Compare, len(txn.Compares)),
		Success: make([]*pb.RequestOp, len(txn.Ops)),
		Failure: make([]*pb.RequestOp, 0, len(txn.Compares)),
	}
	seen := make(map[string]bool, max(len(txn.Compares), len(txn.Ops)))
	for i, c := range txn.Compares {
		if c.Key == "" {
			return nil, types.Errorf(types.Invalid, "commit: a compare has no key; name one")
		}
		key := []byte(c.Key)
		req.Compare[i] = compare(key, c)
		if !seen[c.Key] {
			seen[c.Key] = true
			req.Failure = append(req.Failure, readOf(key))
		}
	}
	clear(seen)
	for i, op := range txn.Ops {
		switch {
		case op.Key == "":
			return nil, types.Errorf(types.Invalid, "commit: an operation has no key; name one")
		case seen[op.Key]:
			return nil, types.Errorf(types.Invalid, "commit: %s is written twice; write each key once", op.Key)
		}
		seen[op.Key] = true
		req.Success[i] = change(op)
	}
	if size := proto.Size(req); size > s.limits.Bytes {
		return nil, types.Errorf(types.Invalid,
			"commit %d bytes: etcd at %s allows %d; split the transaction, or make its values smaller", size, s.at(), s.limits.Bytes)
	}
	return req, nil
}

func compare(key []byte, c controlplane.Compare) *pb.Compare {
	if c.Target == controlplane.CreateRevision {
		return &pb.Compare{Key: key, Target: pb.Compare_CREATE, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: c.Revision}}
	}
	return &pb.Compare{Key: key, Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{ModRevision: c.Revision}}
}

func readOf(key []byte) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key, KeysOnly: true}}}
}

func change(op controlplane.Op) *pb.RequestOp {
	if op.Delete {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
			RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(op.Key)},
		}}
	}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{
		RequestPut: &pb.PutRequest{Key: []byte(op.Key), Value: op.Value, Lease: int64(op.Lease)},
	}}
}

// readBack puts what the failure branch read into the order of the compares.
func readBack(compares []controlplane.Compare, reads []*pb.RequestOp, answers []*pb.ResponseOp) []controlplane.KV {
	found := make(map[string]controlplane.KV, len(reads))
	for i, answer := range answers {
		if kvs := answer.GetResponseRange().GetKvs(); len(kvs) == 1 {
			kv := keyValue(kvs[0])
			found[string(reads[i].GetRequestRange().Key)] = kv
		}
	}
	read := make([]controlplane.KV, len(compares))
	for i, c := range compares {
		read[i] = found[c.Key]
		read[i].Key = c.Key
	}
	return read
}
