package gateway

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/writers"
	"github.com/escher-sched/escher/types"
)

// The limits of one subject: calls and messages of streams a second, how many at once without a pause,
// and calls and streams open at a time.
const (
	callRate  = 5000
	callBurst = 10_000
	callsOpen = 1024
)

const (
	// streamsOpen bounds the calls of one connection, and requestBytes the size of a message.
	streamsOpen  = 1024
	requestBytes = 2 << 20
	// connectionAge is how long a connection lives. The next one shows the renewed certificate, and may be
	// to another server.
	connectionAge = 4 * time.Hour
	// streamWindow and connWindow are the data in flight: those of etcd's own clients here.
	streamWindow = 1 << 20
	connWindow   = 4 << 20
)

// Config says what a gateway serves, and to whom.
type Config struct {
	// Etcd is a connection to etcd, and Limits the limits that it was started with.
	Etcd   grpc.ClientConnInterface
	Limits controlplane.Limits
	// Authority knows the rights.
	Authority *access.Authority
	// Identify returns the identity of the sender of a call. Denied: it has none.
	Identify func(ctx context.Context) (access.Identity, error)
	// Now returns the time.
	Now func() time.Time
}

// Bearer returns identities by the tokens that calls carry or, without one, by the certificate that the
// agent of a node has shown.
func Bearer(a *access.Authority) func(ctx context.Context) (access.Identity, error) {
	return func(ctx context.Context) (access.Identity, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		for _, value := range md.Get("authorization") {
			if token, ok := strings.CutPrefix(value, "Bearer "); ok {
				return a.Identify(token)
			}
		}
		if p, ok := peer.FromContext(ctx); ok {
			if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.VerifiedChains) > 0 {
				return a.Certified(info.State.PeerCertificates[0])
			}
		}
		return access.Identity{}, types.Errorf(types.Denied, "%w: the call has no token: set ESCHER_TOKEN, or send the metadata authorization: Bearer TOKEN", access.ErrUnauthenticated)
	}
}

// Gateway serves etcd's API.
type Gateway struct {
	cfg   Config
	kv    pb.KVClient
	watch pb.WatchClient
	lease pb.LeaseClient
	codec codec
	use   *access.Gauges
	base  user

	mu sync.Mutex
	// tasks says when a task of a namespace was last seen bound to a node.
	tasks map[[2]string]time.Time
}

// New returns a server of gRPC that serves a gateway. The caller serves its listeners, and stops it.
func New(cfg Config) *grpc.Server {
	g := &Gateway{
		cfg: cfg, kv: pb.NewKVClient(cfg.Etcd), watch: pb.NewWatchClient(cfg.Etcd), lease: pb.NewLeaseClient(cfg.Etcd),
		codec: newCodec(),
		use:   access.NewGauges(access.Use{Rate: callRate, Burst: callBurst, Open: callsOpen}, cfg.Now),
		base:  user{rules: rules(), table: make(map[controlplane.Kind]writers.Access)},
		tasks: make(map[[2]string]time.Time),
	}
	for _, a := range writers.Table() {
		g.base.table[a.Kind] = a
	}
	g.base.bound = g.bound
	s := grpc.NewServer(
		grpc.UnaryInterceptor(g.unary), grpc.StreamInterceptor(g.stream),
		grpc.ForceServerCodecV2(g.codec), grpc.MaxRecvMsgSize(requestBytes), grpc.MaxConcurrentStreams(streamsOpen),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connWindow),
		grpc.ConnectionTimeout(handshakeTime), grpc.Creds(handshaken{}),
		// Clients ask every ten seconds whether the connection is alive, and a silent one is closed.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 4 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: 30 * time.Second, Timeout: 10 * time.Second,
			MaxConnectionAge: connectionAge, MaxConnectionAgeGrace: time.Minute,
		}),
	)
	s.RegisterService(kvDescription(), kvServer{g: g})
	pb.RegisterWatchServer(s, watchServer{g: g})
	pb.RegisterLeaseServer(s, leaseServer{g: g})
	return s
}

// sender is the key of the user in the context of a call.
type sender struct{}

// enter identifies the sender of a call. It returns a context that ends when its credential does, and
// what to call at the end of the call.
func (g *Gateway) enter(ctx context.Context) (context.Context, func(), error) {
	id, err := g.cfg.Identify(ctx)
	if err != nil {
		return nil, nil, err
	}
	leave, err := g.use.Enter(id.Subject)
	if err != nil {
		return nil, nil, err
	}
	ctx, end, err := g.cfg.Authority.Hold(ctx, id, nil, "")
	if err != nil {
		leave()
		return nil, nil, err
	}
	u := g.base
	u.Caller = access.From(ctx)
	if node, ok := strings.CutPrefix(id.Subject, types.NodeSubject+":"); ok {
		u.node = node
	}
	return context.WithValue(ctx, sender{}, u), func() { end(); leave() }, nil
}

// from returns the user of a call.
func from(ctx context.Context) user { return ctx.Value(sender{}).(user) }

func (g *Gateway) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	ctx, leave, err := g.enter(ctx)
	if err != nil {
		return nil, refusal(err)
	}
	defer leave()
	answer, err := handle(ctx, req)
	return answer, refusal(err)
}

func (g *Gateway) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ctx, leave, err := g.enter(stream.Context())
	if err != nil {
		return refusal(err)
	}
	defer leave()
	return refusal(access.Ended(ctx, handle(srv, entered{stream, ctx})))
}

// entered is a stream of an identified user.
type entered struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the context of the stream.
func (e entered) Context() context.Context { return e.ctx }

// refusal returns an error as gRPC tells it. Those of etcd pass as they are.
func refusal(err error) error {
	if _, told := status.FromError(err); err == nil || told {
		return err
	}
	code := codes.Unavailable
	switch types.ClassOf(err) {
	case types.Denied:
		if code = codes.PermissionDenied; errors.Is(err, access.ErrUnauthenticated) {
			code = codes.Unauthenticated
		}
	case types.Invalid:
		code = codes.InvalidArgument
	case types.Precondition:
		code = codes.FailedPrecondition
	case types.Unavailable:
		if errors.Is(err, access.ErrTooMany) {
			return rpctypes.ErrGRPCRequestTooManyRequests
		}
	}
	return status.Error(code, err.Error())
}

// onward returns the context of a call to etcd: with the sender's wish for a leader, and without its
// credentials.
func onward(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	if len(md.Get(rpctypes.MetadataRequireLeaderKey)) > 0 {
		return metadata.AppendToOutgoingContext(ctx, rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
	}
	return ctx
}

const (
	// boundFor is how long a namespace counts as bound to a node after it was seen to be.
	boundFor = 5 * time.Second
	// maxBound bounds the namespaces of nodes that are remembered.
	maxBound = 100_000
)

// bound reports whether a task of a namespace is bound to a node, or was some seconds ago.
func (g *Gateway) bound(ctx context.Context, node, ns string) bool {
	at := [2]string{node, ns}
	now := g.cfg.Now()
	g.mu.Lock()
	seen := g.tasks[at]
	g.mu.Unlock()
	if now.Sub(seen) < boundFor {
		return true
	}
	prefix := controlplane.Prefix(controlplane.Bindings, node, ns)
	res, err := g.kv.Range(ctx, &pb.RangeRequest{Key: []byte(prefix), RangeEnd: []byte(etcdstore.PrefixEnd(prefix)), Limit: 1, KeysOnly: true})
	if err != nil || len(res.Kvs) == 0 {
		return false // not known to be
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.tasks) >= maxBound {
		clear(g.tasks)
	}
	g.tasks[at] = now
	return true
}
