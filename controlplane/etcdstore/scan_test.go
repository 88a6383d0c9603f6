package etcdstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/types"
)

// keysOf returns the keys of a scan, or its error.
func keysOf(t *testing.T, s controlplane.Store) (keys []string, revision int64, err error) {
	t.Helper()
	revision, err = controlplane.Scan(t.Context(), s, controlplane.ListOptions{Prefix: "/"}, func(part []controlplane.KV) error {
		for _, kv := range part {
			keys = append(keys, fmt.Sprintf("%s=%s@%d", kv.Key, kv.Value, kv.ModRevision))
		}
		return nil
	})
	return keys, revision, err
}

// TestScanWithoutStream checks that a server without streams is asked for pages, with the same
// result.
func TestScanWithoutStream(t *testing.T) {
	srv := etcdtest.Start(t)
	s := etcdstore.New(srv.Client, etcdstore.ServerLimits())
	for i := range 20 {
		var txn controlplane.Txn
		for k := range 200 {
			txn.Ops = append(txn.Ops, controlplane.Op{Key: fmt.Sprintf("/%02d/%03d", i, k), Value: []byte(strings.Repeat("x", k))})
		}
		if _, err := s.Commit(t.Context(), txn); err != nil {
			t.Fatal(err)
		}
	}
	old := &paging{kv: pb.NewKVClient(srv.Client.ActiveConnection())}
	want, at, err := keysOf(t, s)
	if err != nil || len(want) != 4000 {
		t.Fatalf("%d keys: %v", len(want), err)
	}
	got, revision, err := keysOf(t, open(t, old.serve(t)))
	if err != nil || revision != at || !slices.Equal(got, want) {
		t.Errorf("%d keys at revision %d, want %d at %d: %v", len(got), revision, len(want), at, err)
	}
	if old.pages < 2 {
		t.Errorf("%d pages", old.pages)
	}
}

// paging is an etcd from before RangeStream.
type paging struct {
	pb.UnimplementedKVServer
	kv    pb.KVClient
	mu    sync.Mutex
	pages int
}

func (p *paging) serve(t *testing.T) string { return serveKV(t, p) }

func (p *paging) Range(ctx context.Context, req *pb.RangeRequest) (*pb.RangeResponse, error) {
	p.mu.Lock()
	p.pages++
	p.mu.Unlock()
	return p.kv.Range(ctx, req)
}

// streaming is an etcd that streams prepared parts.
type streaming struct {
	pb.UnimplementedKVServer
	parts []*pb.RangeResponse
	end   error
}

func (s *streaming) RangeStream(_ *pb.RangeRequest, out grpc.ServerStreamingServer[pb.RangeStreamResponse]) error {
	for _, part := range s.parts {
		if err := out.Send(&pb.RangeStreamResponse{RangeResponse: part}); err != nil {
			return err
		}
	}
	return s.end
}

// TestScanBrokenOff checks that a broken stream yields no range.
func TestScanBrokenOff(t *testing.T) {
	first := &pb.RangeResponse{Kvs: []*mvccpb.KeyValue{{Key: []byte("/a"), Value: []byte("1"), ModRevision: 7}}}
	last := &pb.RangeResponse{Kvs: []*mvccpb.KeyValue{{Key: []byte("/b"), Value: []byte("2"), ModRevision: 8}}, Header: &pb.ResponseHeader{Revision: 9}}
	for _, test := range []struct {
		name  string
		fake  streaming
		keys  string
		class types.Class
	}{
		{"whole", streaming{parts: []*pb.RangeResponse{first, last}}, "[/a=1@7 /b=2@8]", 0},
		{"before the first part", streaming{end: status.Error(codes.Unavailable, "away")}, "[]", types.Unavailable},
		{"after a part", streaming{parts: []*pb.RangeResponse{first}, end: status.Error(codes.Unavailable, "away")}, "[/a=1@7]", types.Unavailable},
		{"without the last part", streaming{parts: []*pb.RangeResponse{first}}, "[/a=1@7]", types.Unavailable},
		{"by a compaction", streaming{parts: []*pb.RangeResponse{first}, end: rpctypes.ErrGRPCCompacted}, "[/a=1@7]", types.Compacted},
		{"unimplemented too late", streaming{parts: []*pb.RangeResponse{first}, end: status.Error(codes.Unimplemented, "what")}, "[/a=1@7]", types.Precondition},
	} {
		t.Run(test.name, func(t *testing.T) {
			keys, revision, err := keysOf(t, open(t, serveKV(t, &test.fake)))
			if fmt.Sprint(keys) != test.keys {
				t.Errorf("keys %v, want %s", keys, test.keys)
			}
			if test.class == 0 && (err != nil || revision != 9) || test.class != 0 && !types.Is(err, test.class) {
				t.Errorf("revision %d, error %v, want %s", revision, err, test.class)
			}
		})
	}
}
