package gateway

import (
	"bytes"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// FuzzRequests: what the gateway reads of a transaction is what etcd reads, or it refuses it.
func FuzzRequests(f *testing.F) {
	for _, req := range []*pb.TxnRequest{
		{},
		{
			Compare: []*pb.Compare{
				{Key: []byte("a"), Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{ModRevision: 7}},
				{Key: []byte("b"), Target: pb.Compare_CREATE, Result: pb.Compare_LESS, RangeEnd: []byte("c"), TargetUnion: &pb.Compare_CreateRevision{}},
				{Key: []byte("c"), Target: pb.Compare_VALUE, TargetUnion: &pb.Compare_Value{Value: []byte("v")}},
				{Key: []byte("d"), Target: pb.Compare_LEASE, TargetUnion: &pb.Compare_Lease{Lease: -1}},
			},
			Success: []*pb.RequestOp{
				{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("a"), Value: []byte("x"), Lease: 9}}},
				{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("a"), PrevKv: true}}},
				{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte("b")}}},
			},
			Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("a"), Limit: 1, CountOnly: true}}}},
		},
		{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{}}}}},
		{Compare: []*pb.Compare{{Key: []byte("a"), Target: pb.Compare_MOD, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: 5}}}},
	} {
		data, err := proto.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		compares, ops, err := parseTxn(data)
		if err != nil {
			return
		}
		var req pb.TxnRequest
		if err := proto.Unmarshal(data, &req); err != nil {
			t.Fatalf("etcd does not read it: %v", err)
		}
		if unknown(req.ProtoReflect()) {
			t.Fatal("it has fields that this etcd does not know")
		}
		if len(compares) != len(req.Compare) || len(ops[0]) != len(req.Success) || len(ops[1]) != len(req.Failure) {
			t.Fatalf("%d compares, %d and %d operations", len(compares), len(ops[0]), len(ops[1]))
		}
		for i, c := range req.Compare {
			revision := uint64(0)
			switch c.Target {
			case pb.Compare_VERSION:
				revision = uint64(c.GetVersion())
			case pb.Compare_CREATE:
				revision = uint64(c.GetCreateRevision())
			case pb.Compare_MOD:
				revision = uint64(c.GetModRevision())
			case pb.Compare_LEASE:
				revision = uint64(c.GetLease())
			}
			if x := compares[i]; !bytes.Equal(x.key, c.Key) || !bytes.Equal(x.end, c.RangeEnd) || x.result != c.Result || x.target != c.Target || x.revision != revision {
				t.Errorf("%+v, etcd reads %v", x, c)
			}
		}
		for b, branch := range [][]*pb.RequestOp{req.Success, req.Failure} {
			for i, op := range branch {
				x := ops[b][i]
				if !same(x, op) {
					t.Errorf("%+v, etcd reads %v", x, op)
				}
			}
		}
	})
}

// same reports whether the gateway reads an operation as etcd does.
func same(x operation, op *pb.RequestOp) bool {
	switch r := op.Request.(type) {
	case *pb.RequestOp_RequestRange:
		return x.kind == reads && bytes.Equal(x.key, r.RequestRange.Key) && bytes.Equal(x.end, r.RequestRange.RangeEnd) && x.counts == r.RequestRange.CountOnly
	case *pb.RequestOp_RequestPut:
		p := r.RequestPut
		return x.kind == puts && bytes.Equal(x.key, p.Key) && bytes.Equal(x.value, p.Value) && x.lease == p.Lease && x.others == (p.PrevKv || p.IgnoreLease || p.IgnoreValue)
	case *pb.RequestOp_RequestDeleteRange:
		d := r.RequestDeleteRange
		return x.kind == deletes && bytes.Equal(x.key, d.Key) && bytes.Equal(x.end, d.RangeEnd) && x.others == d.PrevKv
	case nil:
		return x.kind == 0
	}
	return false
}

// unknown reports whether a message has fields that its type does not.
func unknown(m protoreflect.Message) bool {
	found := len(m.GetUnknown()) > 0
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsList() && fd.Message() != nil:
			for i := range v.List().Len() {
				found = found || unknown(v.List().Get(i).Message())
			}
		case fd.Message() != nil:
			found = found || unknown(v.Message())
		}
		return true
	})
	return found
}

// TestAmbiguous: messages that two readers could understand differently are refused.
func TestAmbiguous(t *testing.T) {
	for name, data := range map[string]string{
		"an unknown field":     "\x22\x00",
		"another type":         "\x08\x01",
		"cut":                  "\x0a\x05a",
		"a key twice":          "\x0a\x06\x1a\x01a\x1a\x01b",
		"two revisions":        "\x0a\x04\x28\x05\x30\x06",
		"another revision":     "\x0a\x04\x10\x02\x28\x05", // of the creation, for the last change
		"a far field":          "\x0a\x03\xf8\x01\x01",
		"two operations":       "\x12\x04\x0a\x00\x12\x00",
		"an unknown operation": "\x12\x02\x2a\x00",
	} {
		if _, _, err := parseTxn([]byte(data)); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
