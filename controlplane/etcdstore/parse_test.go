package etcdstore

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/google/go-cmp/cmp"

	"github.com/escher-sched/escher/controlplane"
)

// marshal returns the bytes that the other side sends.
func marshal(t *rapid.T, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// later adds a field that this version does not know.
func later(t *rapid.T, data []byte) []byte {
	switch rapid.IntRange(0, 3).Draw(t, "later") {
	case 1:
		return protowire.AppendVarint(protowire.AppendTag(data, 1000, protowire.VarintType), 1)
	case 2:
		return protowire.AppendFixed64(protowire.AppendTag(data, 1001, protowire.Fixed64Type), 1)
	case 3:
		return protowire.AppendString(protowire.AppendTag(data, 1002, protowire.BytesType), "x")
	}
	return data
}

func drawBytes(t *rapid.T, label string) []byte {
	b := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, label)
	if len(b) == 0 {
		return nil // as the parser returns it
	}
	return b
}

func drawKV(t *rapid.T) *mvccpb.KeyValue {
	revision := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64())
	return &mvccpb.KeyValue{
		Key:            []byte(rapid.String().Draw(t, "key")),
		Value:          drawBytes(t, "value"),
		CreateRevision: revision.Draw(t, "create"),
		ModRevision:    revision.Draw(t, "mod"),
		Version:        revision.Draw(t, "version"),
		Lease:          revision.Draw(t, "lease"),
	}
}

func drawHeader(t *rapid.T) *pb.ResponseHeader {
	if rapid.Bool().Draw(t, "no header") {
		return nil
	}
	return &pb.ResponseHeader{ClusterId: 1, MemberId: 2, Revision: rapid.Int64().Draw(t, "revision"), RaftTerm: 3}
}

// unmarshal parses bytes in pieces, like gRPC.
func unmarshal(t *rapid.T, data []byte, into parser) {
	t.Helper()
	cut := rapid.IntRange(0, len(data)).Draw(t, "cut")
	if err := (codec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(data[:cut]), mem.SliceBuffer(data[cut:])}, into); err != nil {
		t.Fatal(err)
	}
	// A shorter input is an error or another message, but never a panic.
	_ = into.parse(data[:cut])
	if err := into.parse(data); err != nil {
		t.Fatal(err)
	}
}

// TestRangePartIsWhatWasSent checks the parser against generated messages.
func TestRangePartIsWhatWasSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := &pb.RangeResponse{
			Header: drawHeader(t), Kvs: rapid.SliceOf(rapid.Custom(drawKV)).Draw(t, "kvs"),
			More: rapid.Bool().Draw(t, "more"), Count: rapid.Int64().Draw(t, "count"),
		}
		want := []controlplane.KV{}
		for _, kv := range sent.Kvs {
			want = append(want, keyValue(kv))
		}
		var got rangePart
		unmarshal(t, later(t, marshal(t, &pb.RangeStreamResponse{RangeResponse: sent})), &got)
		if diff := cmp.Diff(want, append([]controlplane.KV{}, got.kvs...)); diff != "" || got.revision != sent.Header.GetRevision() {
			t.Errorf("revision %d, want %d; keys (-want +got):\n%s", got.revision, sent.Header.GetRevision(), diff)
		}
	})
}

// TestWatchAnswerIsWhatWasSent checks the parser of watches against generated messages.
func TestWatchAnswerIsWhatWasSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := &pb.WatchResponse{
			Header: drawHeader(t), WatchId: rapid.Int64().Draw(t, "id"), Created: rapid.Bool().Draw(t, "created"),
			Canceled: rapid.Bool().Draw(t, "canceled"), CompactRevision: rapid.Int64().Draw(t, "compacted"),
			CancelReason: rapid.String().Draw(t, "reason"), Fragment: rapid.Bool().Draw(t, "fragment"),
		}
		want := watchAnswer{
			id: sent.WatchId, created: sent.Created, canceled: sent.Canceled, fragment: sent.Fragment, reason: sent.CancelReason,
			revision: sent.Header.GetRevision(), compacted: sent.CompactRevision,
		}
		for range rapid.IntRange(0, 5).Draw(t, "events") {
			e := &mvccpb.Event{Kv: drawKV(t), Type: rapid.SampledFrom([]mvccpb.Event_EventType{mvccpb.Event_PUT, mvccpb.Event_DELETE}).Draw(t, "type")}
			if rapid.Bool().Draw(t, "previous") {
				e.PrevKv = drawKV(t)
			}
			sent.Events = append(sent.Events, e)
			kv := keyValue(e.Kv)
			if e.Type == mvccpb.Event_DELETE {
				kv = controlplane.KV{Key: kv.Key, ModRevision: kv.ModRevision}
			}
			want.events = append(want.events, controlplane.Event{KV: kv, Delete: e.Type == mvccpb.Event_DELETE})
		}
		var got watchAnswer
		unmarshal(t, later(t, marshal(t, sent)), &got)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(watchAnswer{})); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// BenchmarkWatchAnswer parses an answer with the changes of 21 binds.
func BenchmarkWatchAnswer(b *testing.B) {
	sent := &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: 5}}
	for _, op := range bindLike().Ops {
		sent.Events = append(sent.Events, &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte(op.Key), Value: op.Value, CreateRevision: 5, ModRevision: 5, Version: 1}})
	}
	data, err := proto.Marshal(sent)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("parsed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var got watchAnswer
			if err := (codec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, &got); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var got pb.WatchResponse
			if err := proto.Unmarshal(data, &got); err != nil {
				b.Fatal(err)
			}
			for _, e := range got.Events {
				keyValue(e.Kv)
			}
		}
	})
}

func TestCodecKnowsItsMessages(t *testing.T) {
	c := codec{}
	if _, err := c.Marshal(1); err == nil {
		t.Error("a number is encoded")
	}
	if err := c.Unmarshal(nil, new(int)); err == nil {
		t.Error("a number is decoded")
	}
	req := &pb.RangeRequest{Key: []byte("a")}
	data, err := c.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	again := &pb.RangeRequest{}
	if err := c.Unmarshal(data, again); err != nil || !proto.Equal(req, again) {
		t.Errorf("%v: %v", again, err)
	}
	if err := new(rangePart).parse([]byte{0x0a, 200}); err == nil {
		t.Error("half a message is read")
	}
}
