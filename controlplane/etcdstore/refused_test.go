package etcdstore_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/types"
)

// TestRefusedOfMany checks that all compared keys are read back as of the refusal, however many.
func TestRefusedOfMany(t *testing.T) {
	srv := etcdtest.Start(t)
	etcd, mem := etcdstore.New(srv.Client, etcdstore.ServerLimits()), memstore.New()
	for _, n := range []int{1, 5, 16, 17, 100} {
		var made, txn controlplane.Txn
		prefix := fmt.Sprintf("/%d/", n)
		for i := range n {
			key := fmt.Sprintf("%s%d", prefix, i/2)
			if i%2 == 0 {
				made.Ops = append(made.Ops, controlplane.Op{Key: key, Value: []byte("x")})
			}
			txn.Compares = append(txn.Compares,
				controlplane.Compare{Key: key, Target: controlplane.Target(i % 2), Revision: 1}, controlplane.Compare{Key: key + "absent"})
		}
		txn.Compares = append(txn.Compares, controlplane.Compare{Key: prefix, Target: controlplane.Newest, Revision: 1})
		var read [2][]string
		for i, s := range []controlplane.Store{etcd, mem} {
			first, err := s.Commit(t.Context(), made)
			if err != nil {
				t.Fatal(err)
			}
			res, err := s.Commit(t.Context(), txn)
			if err != nil || res.Committed || res.Revision != first.Revision {
				t.Fatalf("%d compares: %+v: %v", n, res, err)
			}
			for k, kv := range res.Read {
				// The last one is a range: any of its last changed keys is right.
				if k < len(res.Read)-1 {
					read[i] = append(read[i], fmt.Sprintf("%s@%d,%d", kv.Key, kv.CreateRevision, kv.ModRevision))
				} else {
					read[i] = append(read[i], fmt.Sprint(kv.ModRevision))
				}
			}
		}
		if !slices.Equal(read[0], read[1]) {
			t.Errorf("%d compares: etcd reads back %q, memory %q", n, read[0], read[1])
		}
	}
}

// refusing refuses the first transaction, and is then unavailable.
type refusing struct {
	pb.UnimplementedKVServer
	asked int
}

func (r *refusing) Txn(context.Context, *pb.TxnRequest) (*pb.TxnResponse, error) {
	if r.asked++; r.asked == 1 {
		return &pb.TxnResponse{Header: &pb.ResponseHeader{Revision: 5}}, nil
	}
	return nil, status.Error(codes.Unavailable, "away")
}

// TestRefusedAndAway checks a transaction that is known to be refused for an unknown reason: it had
// no effect.
func TestRefusedAndAway(t *testing.T) {
	s := open(t, serveKV(t, &refusing{}))
	var txn controlplane.Txn
	for i := range 100 {
		txn.Compares = append(txn.Compares, controlplane.Compare{Key: fmt.Sprint(i)})
	}
	if res, err := s.Commit(t.Context(), txn); !types.Is(err, types.Unavailable) {
		t.Errorf("%+v, %v", res, err)
	}
}
