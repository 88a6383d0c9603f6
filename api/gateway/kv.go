package gateway

import (
	"context"
	"errors"
	"io"
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

// answers bounds etcd's answers. A part of a stream is small.
func answers() grpc.CallOption { return grpc.MaxCallRecvMsgSize(answerBytes) }

// maxKey bounds a key in a request: those of Escher are shorter.
const maxKey = 512

// looks returns what a user sees of a range.
func looks(ctx context.Context, u user, from, end []byte) (view, error) {
	if u.Root {
		return view{}, nil // as by etcd itself
	}
	if max(len(from), len(end)) > maxKey {
		return view{}, types.Errorf(types.Invalid, "read %.40q: the key has more than %d bytes: correct it", from, maxKey)
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

// plain returns an error if a read tells more of a range than the keys that the user sees: by their order,
// their number, or the revisions of the others.
func plain(u user, v view, req *pb.RangeRequest) error {
	ordered := req.SortOrder != pb.RangeRequest_NONE && (req.SortTarget != pb.RangeRequest_KEY || req.SortOrder != pb.RangeRequest_ASCEND)
	revisions := req.MinModRevision != 0 || req.MaxModRevision != 0 || req.MinCreateRevision != 0 || req.MaxCreateRevision != 0
	if v.whole() || v.visible == nil && (!ordered || req.SortTarget != pb.RangeRequest_VALUE) || v.visible != nil && !ordered && !revisions && !req.CountOnly {
		return nil
	}
	return types.Errorf(types.Invalid, "read %.100q: counts, sorts or selects by revision what %s may not see: name a namespace, or select from what comes", req.Key, u.Subject)
}

// pageKeys is how many keys are read at once of a range that is filtered.
const pageKeys = 2000

// Range reads a range.
func (s kvServer) Range(ctx context.Context, req *pb.RangeRequest) (*pb.RangeResponse, error) {
	u := from(ctx).remembering()
	v, err := looks(ctx, u, req.Key, req.RangeEnd)
	if err == nil {
		err = plain(u, v, req)
	}
	if err != nil {
		return nil, err
	}
	if v.visible != nil {
		return s.filtered(ctx, u, v, req)
	}
	res, err := s.g.kv.Range(onward(ctx), req, answers())
	if err == nil {
		res.Kvs = u.shown(ctx, v, res.Kvs)
	}
	return res, err
}

// filtered reads the keys of a range that the user sees, as many as it wants: neither the number of keys
// nor whether there are more tells of others.
func (s kvServer) filtered(ctx context.Context, u user, v view, req *pb.RangeRequest) (*pb.RangeResponse, error) {
	most := req.Limit
	req.Limit = pageKeys
	var all *pb.RangeResponse
	for bytes := 0; ; {
		res, err := s.g.kv.Range(onward(ctx), req, answers())
		if err != nil {
			return nil, err
		}
		more := res.More && len(res.Kvs) > 0
		if more {
			req.Key = append(slices.Clone(res.Kvs[len(res.Kvs)-1].Key), 0)
		}
		if req.Revision == 0 {
			req.Revision = res.Header.Revision
		}
		seen := u.shown(ctx, v, res.Kvs)
		if all == nil {
			all, res.Kvs = res, nil
		}
		all.Kvs = append(all.Kvs, seen...)
		for _, kv := range seen {
			bytes += len(kv.Key) + len(kv.Value)
		}
		switch n := int64(len(all.Kvs)); {
		case most > 0 && n > most:
			all.Kvs, all.More, all.Count = all.Kvs[:most], true, most
			return all, nil
		case !more:
			all.More, all.Count = false, n
			return all, nil
		case bytes > answerBytes:
			return nil, types.Errorf(types.Invalid, "read %.100q: the answer has more than %d bytes: read it by pages", req.Key, answerBytes)
		}
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
	u := from(ctx).remembering()
	v, err := looks(ctx, u, req.Key, req.RangeEnd)
	if err == nil {
		err = plain(u, v, req)
	}
	if err == nil && v.visible != nil && req.Limit != 0 {
		err = types.Errorf(types.Invalid, "read %.100q: a limit counts what %s may not see: read it without, or not as a stream", req.Key, u.Subject)
	}
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
	if v.redacts && len(kv.Value) > 0 && u.redacts(kind) {
		kv.Value = u.redact(ctx, kv.Key, kv.Value)
	}
	return true
}
