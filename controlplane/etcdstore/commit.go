package etcdstore

import (
	"context"
	"errors"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Commit applies a transaction: see controlplane.Store. It sends it once.
func (s *Store) Commit(ctx context.Context, txn controlplane.Txn) (res controlplane.Result, err error) {
	begin := time.Now()
	defer func() { s.metrics.answered("commit", begin, err) }()
	if err := s.check(txn); err != nil {
		return controlplane.Result{}, err
	}
	read := readAtOnce(txn.Compares)
	req := encodeTxn(txn, read)
	if len(req) > s.limits.Bytes {
		return controlplane.Result{}, types.Errorf(types.Invalid,
			"commit %d bytes: etcd at %s allows %d; split the transaction, or make its values smaller", len(req), s.at(), s.limits.Bytes)
	}
	var answer txnAnswer
	sent, err := s.sendNoting(ctx, req, &answer, txn.Sent)
	switch {
	case err != nil && sent && isNoSpace(err):
		return s.settleNoSpace(ctx, txn, err)
	case err != nil:
		return controlplane.Result{}, s.failCommit(ctx, err, sent)
	case answer.succeeded:
		return controlplane.Result{Committed: true, Revision: answer.revision}, nil
	}
	res = refusal(answer.revision, read, answer.found)
	if res.Read == nil || len(read) == len(txn.Compares) {
		return res, nil
	}
	return s.readRefused(ctx, txn, answer.revision)
}

// refusal returns the result of a refused transaction, given the found keys of some compares.
func refusal(revision int64, compares []controlplane.Compare, found []controlplane.KV) controlplane.Result {
	res := controlplane.Result{Revision: revision, Read: readBack(compares, found)}
	for i, c := range compares {
		if c.Target == controlplane.Value && !c.Holds(res.Read[i]) {
			res.Read = nil
			break
		}
	}
	return res
}

// fewCompares is the largest number of compares that a transaction reads back in its own failure
// branch. With more, the reads would be a large part of what etcd receives, logs and replicates,
// for a few failed compares.
const fewCompares = 16

// readAtOnce returns the compares to read back in the failure branch: all if they are few, else
// those that are likely to fail.
func readAtOnce(compares []controlplane.Compare) []controlplane.Compare {
	if len(compares) <= fewCompares {
		return compares
	}
	var values []controlplane.Compare
	for _, c := range compares {
		if c.Target == controlplane.Value {
			values = append(values, c)
		}
	}
	return values
}

// readRefused reads the compared keys at the revision of the refusal.
func (s *Store) readRefused(ctx context.Context, txn controlplane.Txn, revision int64) (controlplane.Result, error) {
	req := &pb.TxnRequest{Success: request(controlplane.Txn{Compares: txn.Compares}).Failure}
	for _, read := range req.Success {
		read.GetRequestRange().Revision = revision
	}
	var answer txnAnswer
	if _, err := s.send(ctx, req, &answer); err != nil {
		return controlplane.Result{}, types.Errorf(types.Unavailable, "commit: etcd refused it, and the compared keys cannot be read: etcd at %s: %w", s.at(), cause(ctx, err))
	}
	return controlplane.Result{Revision: revision, Read: readBack(txn.Compares, answer.found)}, nil
}

// send sends a transaction once, and reports whether any of it may have left this process: without
// a connection gRPC creates no stream.
//
// It makes the unary call itself, because clientv3 repeats a unary call, even a write, on
// DeadlineExceeded or Canceled while ctx is not done. The compares of the second call would fail,
// and an applied transaction would look refused.
func (s *Store) send(ctx context.Context, req, answer any) (sent bool, err error) {
	return s.sendNoting(ctx, req, answer, nil)
}

// sendNoting is send, and calls note, unless nil, when the transaction is on its way.
func (s *Store) sendNoting(ctx context.Context, req, answer any, note func()) (sent bool, err error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	stream, err := s.client.ActiveConnection().NewStream(ctx, &grpc.StreamDesc{}, pb.KV_Txn_FullMethodName, s.raw...)
	if err != nil {
		return false, err
	}
	// io.EOF means that the status, which RecvMsg returns, came before the end.
	if err = stream.SendMsg(req); err == nil || errors.Is(err, io.EOF) {
		if note != nil && err == nil {
			note()
		}
		err = stream.RecvMsg(answer)
	}
	return true, err
}

// check checks the number of operations and other errors of a transaction.
func (s *Store) check(txn controlplane.Txn) error {
	if txn.Invalid != nil {
		return txn.Invalid
	}
	if max(len(txn.Compares), len(txn.Ops)) > s.limits.Ops {
		return types.Errorf(types.Invalid,
			"commit %d compares and %d operations: etcd at %s allows %d of each; split the transaction, or start etcd with a larger --max-txn-ops",
			len(txn.Compares), len(txn.Ops), s.at(), s.limits.Ops)
	}
	for _, c := range txn.Compares {
		if c.Key == "" {
			return types.Errorf(types.Invalid, "commit: a compare has no key; name one")
		}
	}
	written := make(map[string]struct{}, len(txn.Ops))
	for _, op := range txn.Ops {
		if op.Key == "" {
			return types.Errorf(types.Invalid, "commit: an operation has no key; name one")
		}
		written[op.Key] = struct{}{}
	}
	if len(written) == len(txn.Ops) {
		return nil
	}
	for _, op := range txn.Ops {
		if _, ok := written[op.Key]; !ok {
			return types.Errorf(types.Invalid, "commit: %s is written twice; write each key once", op.Key)
		}
		delete(written, op.Key)
	}
	return nil
}
