package gateway

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// kvServer serves reads and transactions. It refuses others: a put or a delete alone compares nothing,
// and servers compact.
type kvServer struct {
	pb.UnimplementedKVServer
	g *Gateway
}

// answers lets etcd's answers have any size, as etcd itself sends them.
func answers() grpc.CallOption { return grpc.MaxCallRecvMsgSize(math.MaxInt32) }

// looks returns what a user sees of a range.
func looks(ctx context.Context, u user, from, end []byte) (view, error) {
	if u.Root {
		return view{}, nil // as by etcd itself
	}
	if len(end) == 0 && strings.HasPrefix(string(from), controlplane.Root) && strings.HasSuffix(string(from), "/") {
		return view{}, nil // never a key: programs read it for the revision of the store
	}
	s, ok := parseSpan(from, end)
	if !ok {
		return view{}, types.Errorf(types.Invalid, "read %.100q: holds keys that are not Escher's: begin with %s", from, controlplane.Root)
	}
	return u.views(ctx, s, string(from))
}

// Range reads a range.
func (s kvServer) Range(ctx context.Context, req *pb.RangeRequest) (*pb.RangeResponse, error) {
	u := from(ctx)
	v, err := looks(ctx, u, req.Key, req.RangeEnd)
	if err != nil {
		return nil, err
	}
	if v.visible != nil && (req.CountOnly || req.SortOrder != pb.RangeRequest_NONE && (req.SortOrder != pb.RangeRequest_ASCEND || req.SortTarget != pb.RangeRequest_KEY)) {
		return nil, types.Errorf(types.Invalid, "read %.100q: counts and sorts keys that %s may not read: name a namespace, or sort what comes", req.Key, u.Subject)
	}
	for ctx, left := onward(ctx), req.Limit; ; {
		res, err := s.g.kv.Range(ctx, req, answers())
		if err != nil || v.whole() {
			return res, err
		}
		var last []byte
		if n := len(res.Kvs); n > 0 {
			last = res.Kvs[n-1].Key
		}
		res.Kvs = u.shown(ctx, v, res.Kvs)
		// A page of which the user sees nothing says nothing about where to go on.
		if len(res.Kvs) > 0 || !res.More || left <= 0 {
			if v.visible != nil {
				res.Count = int64(len(res.Kvs))
			}
			return res, nil
		}
		req.Key, req.Revision = append(slices.Clone(last), 0), res.Header.Revision
	}
}

// Compact drops the history before a revision, for an administrator of the machine.
func (s kvServer) Compact(ctx context.Context, req *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	if u := from(ctx); !u.Root {
		return nil, u.denied("compact", "the store")
	}
	return s.g.kv.Compact(onward(ctx), req)
}

// RangeStream reads a range, and answers in parts.
func (s kvServer) RangeStream(req *pb.RangeRequest, stream grpc.ServerStreamingServer[pb.RangeStreamResponse]) error {
	ctx := stream.Context()
	u := from(ctx)
	v, err := looks(ctx, u, req.Key, req.RangeEnd)
	if err != nil {
		return err
	}
	parts, err := s.g.kv.RangeStream(onward(ctx), req, answers())
	if err != nil {
		return err
	}
	for {
		part, err := parts.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if r := part.RangeResponse; r != nil && !v.whole() {
			if r.Kvs = u.shown(ctx, v, r.Kvs); v.visible != nil {
				r.Count = 0
			}
		}
		if err := stream.Send(part); err != nil {
			return err
		}
	}
}

// shown returns what a user sees of some keys.
func (u user) shown(ctx context.Context, v view, kvs []*mvccpb.KeyValue) []*mvccpb.KeyValue {
	if v.whole() {
		return kvs
	}
	return slices.DeleteFunc(kvs, func(kv *mvccpb.KeyValue) bool { return !u.shows(ctx, v, kv) })
}

// shows reports whether a user sees a key, and takes from its value what the user may not see.
func (u user) shows(ctx context.Context, v view, kv *mvccpb.KeyValue) bool {
	kind := kindOf(kv.Key)
	if v.visible != nil && !v.kinds[kind] {
		if k, ok := controlplane.Parse(string(kv.Key)); !ok || !v.visible(k) {
			return false
		}
	}
	if v.redacts && len(kv.Value) > 0 && kind == controlplane.Allocated {
		kv.Value = u.redact(ctx, kv.Value)
	}
	return true
}
