package etcdstore

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/escher-sched/escher/controlplane"
)

// request translates a transaction into a generated message, for uses other than sending: see
// encodeTxn. Its failure branch reads the compared keys.
func request(txn controlplane.Txn) *pb.TxnRequest {
	req := &pb.TxnRequest{
		Compare: make([]*pb.Compare, len(txn.Compares)),
		Success: make([]*pb.RequestOp, len(txn.Ops)),
	}
	for i, c := range txn.Compares {
		req.Compare[i] = compare([]byte(c.Key), c)
	}
	for i, op := range txn.Ops {
		req.Success[i] = change(op)
	}
	for _, c := range reads(txn.Compares) {
		switch c.Target {
		case controlplane.Newest:
			req.Failure = append(req.Failure, newestOf(c))
		case controlplane.Value:
			req.Failure = append(req.Failure, rangeOp([]byte(c.Key)))
		default:
			req.Failure = append(req.Failure, readOf([]byte(c.Key)))
		}
	}
	return req
}

// reads returns the compares whose keys are read back on failure, in order of first use. A single
// key appears once, and again with its value for each Value compare. A range stands for its last
// changed key.
func reads(compares []controlplane.Compare) []controlplane.Compare {
	seen := make(map[string]bool, len(compares))
	var first []controlplane.Compare
	for _, c := range compares {
		if isShared(c) {
			if seen[c.Key] {
				continue
			}
			seen[c.Key] = true
		}
		first = append(first, c)
	}
	return first
}

// isShared reports whether all such compares of a key read back the same.
func isShared(c controlplane.Compare) bool {
	return c.Target != controlplane.Newest && c.Target != controlplane.Value
}

func compare(key []byte, c controlplane.Compare) *pb.Compare {
	switch c.Target {
	case controlplane.Value:
		return &pb.Compare{Key: key, Target: pb.Compare_VALUE, TargetUnion: &pb.Compare_Value{Value: []byte(c.Content)}}
	case controlplane.CreateRevision:
		return &pb.Compare{Key: key, Target: pb.Compare_CREATE, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: c.Revision}}
	case controlplane.Newest:
		// Of an empty range etcd compares 0, which is less.
		key, end := prefixRange(c.Key)
		return &pb.Compare{Key: key, RangeEnd: end, Target: pb.Compare_MOD, Result: pb.Compare_LESS,
			TargetUnion: &pb.Compare_ModRevision{ModRevision: c.Revision + 1}}
	default:
		return &pb.Compare{Key: key, Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{ModRevision: c.Revision}}
	}
}

// newestOf reads the last changed key of a range, if it changed after the compared revision.
func newestOf(c controlplane.Compare) *pb.RequestOp {
	key, end := prefixRange(c.Key)
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{
		Key: key, RangeEnd: end, KeysOnly: true, Limit: 1, MinModRevision: c.Revision + 1,
		SortTarget: pb.RangeRequest_MOD, SortOrder: pb.RangeRequest_DESCEND,
	}}}
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

// readsOf returns the keys found by the reads of a branch, empty for absent ones.
func readsOf(answers []*pb.ResponseOp) []controlplane.KV {
	found := make([]controlplane.KV, len(answers))
	for i, answer := range answers {
		if kvs := answer.GetResponseRange().GetKvs(); len(kvs) == 1 {
			found[i] = keyValue(kvs[0])
		}
	}
	return found
}

// readBack maps the result of reads(compares) to the order of the compares.
func readBack(compares []controlplane.Compare, found []controlplane.KV) []controlplane.KV {
	known := make(map[string]controlplane.KV, len(found))
	read := make([]controlplane.KV, len(compares))
	for i, c := range compares {
		kv, ok := known[c.Key]
		if (!ok || !isShared(c)) && len(found) > 0 {
			kv, found = found[0], found[1:]
		}
		if isShared(c) {
			known[c.Key] = kv
		}
		if read[i] = kv; kv.ModRevision == 0 {
			read[i].Key = c.Key
		}
		read[i].Lease = 0
	}
	return read
}
