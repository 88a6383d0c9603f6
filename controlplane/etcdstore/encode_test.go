package etcdstore

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane"
)

func drawTxn(t *rapid.T) (txn controlplane.Txn) {
	key := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"/", "/a", "/b/c", "\xff\xff"}).Draw(t, "stem") + strings.Repeat("k", rapid.IntRange(0, 300).Draw(t, "length"))
	})
	for range rapid.IntRange(0, 5).Draw(t, "compares") {
		txn.Compares = append(txn.Compares, controlplane.Compare{
			Key:      key.Draw(t, "key"),
			Target:   rapid.SampledFrom([]controlplane.Target{controlplane.ModRevision, controlplane.CreateRevision, controlplane.Newest, controlplane.Value}).Draw(t, "target"),
			Content:  strings.Repeat("\xff", rapid.SampledFrom([]int{0, 1, 127, 200}).Draw(t, "content")),
			Revision: rapid.OneOf(rapid.Just(int64(0)), rapid.Just(int64(-1)), rapid.Int64()).Draw(t, "revision"),
		})
	}
	for range rapid.IntRange(0, 5).Draw(t, "ops") {
		op := controlplane.Op{Key: key.Draw(t, "key"), Delete: rapid.Bool().Draw(t, "delete")}
		if !op.Delete {
			op.Value = make([]byte, rapid.SampledFrom([]int{0, 1, 100, 127, 128, 16380, 16384}).Draw(t, "size"))
			op.Lease = controlplane.LeaseID(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64()).Draw(t, "lease"))
		}
		txn.Ops = append(txn.Ops, op)
	}
	return txn
}

// TestTxnIsWhatIsMeant checks that the request equals the generated message.
func TestTxnIsWhatIsMeant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		txn := drawTxn(t)
		for n := range len(txn.Compares) + 1 {
			read := txn.Compares[:n]
			want := request(txn)
			want.Failure = request(controlplane.Txn{Compares: read}).Failure
			got := &pb.TxnRequest{}
			data := encodeTxn(txn, read)
			if err := proto.Unmarshal(data, got); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(want, got) {
				t.Fatalf("got %v, want %v", got, want)
			}
			if size := proto.Size(want); size != len(data) {
				t.Fatalf("%d bytes, want %d", len(data), size)
			}
		}
	})
}

// TestTxnAnswerIsWhatWasSent checks the parser against generated messages.
func TestTxnAnswerIsWhatWasSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := &pb.TxnResponse{Header: drawHeader(t), Succeeded: rapid.Bool().Draw(t, "succeeded")}
		var want []controlplane.KV
		for range rapid.IntRange(0, 5).Draw(t, "responses") {
			if sent.Succeeded {
				sent.Responses = append(sent.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{Header: drawHeader(t)}}})
				continue
			}
			found := &pb.RangeResponse{Header: drawHeader(t)}
			if rapid.Bool().Draw(t, "found") {
				found.Kvs, found.Count = append(found.Kvs, drawKV(t)), 1
			}
			sent.Responses = append(sent.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: found}})
		}
		if !sent.Succeeded {
			want = readsOf(sent.Responses)
		}
		var got txnAnswer
		unmarshal(t, later(t, marshal(t, sent)), &got)
		diff := cmp.Diff(append([]controlplane.KV{}, want...), append([]controlplane.KV{}, got.found...))
		if diff != "" || got.succeeded != sent.Succeeded || got.revision != sent.Header.GetRevision() {
			t.Errorf("got %+v of %v: keys (-want +got):\n%s", got, sent, diff)
		}
	})
}

// bindLike returns a transaction like one of a scheduler of many nodes.
func bindLike() (txn controlplane.Txn) {
	for i := range 21 {
		id := strings.Repeat(string(rune('a'+i)), 20)
		for _, key := range []string{
			controlplane.AllocatedKey(id), controlplane.NodeKey(id), controlplane.CordonKey(id),
			controlplane.AliveKey(id), controlplane.TaskKey("default", id), controlplane.StatusKey("default", id),
		} {
			txn.Compares = append(txn.Compares, controlplane.Compare{Key: key, Revision: 1_000_000})
		}
		for _, key := range []string{controlplane.AllocatedKey(id), controlplane.BindingKey(id, "default", id, 1), controlplane.StatusKey("default", id)} {
			txn.Ops = append(txn.Ops, controlplane.Op{Key: key, Value: make([]byte, 120)})
		}
	}
	return txn
}

// BenchmarkTxn measures our encoding of a transaction, and that of a generated message.
func BenchmarkTxn(b *testing.B) {
	txn := bindLike()
	b.Run("encoded", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			encodeTxn(txn, nil)
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := proto.Marshal(request(txn)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
