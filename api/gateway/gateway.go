package gateway

import (
	"context"
	"crypto/x509"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
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
	"google.golang.org/grpc/tap"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/submitter"
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
	streamsOpen  = 512
	requestBytes = 2 << 20
	// answerBytes bounds an answer; streams of parts have any size.
	answerBytes = 64 << 20
	// unidentified bounds the calls that are being read and whose tokens are not known yet.
	unidentified = 64
	// watchesOpen bounds the watches of one subject.
	watchesOpen = 20_000
	// leaseRate and leaseBurst bound the leases that a subject grants: a second, and at once.
	leaseRate  = 10
	leaseBurst = 200
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
	// Known reports whether a token is known to be valid: the body of a call without one is not read. nil
	// means that calls need none.
	Known func(token string) bool
	// Use and Watching bound what subjects do, at all listeners together: see NewUse.
	Use, Watching *access.Gauges
	// Rules are what the shares of users ask of what programs put; nil means nothing.
	Rules submitter.Rules
	// Now returns the time.
	Now func() time.Time
}

// NewUse returns what bounds the calls of subjects, and their watches.
func NewUse(now func() time.Time) (use, watching *access.Gauges) {
	return access.NewGauges(access.Use{Rate: callRate, Burst: callBurst, Open: callsOpen}, now),
		access.NewGauges(access.Use{Rate: callRate, Burst: callBurst, Open: watchesOpen}, now)
}

// bearer returns the token in the metadata of a call; empty if there is none.
func bearer(md metadata.MD) string {
	for _, value := range md.Get("authorization") {
		if token, ok := strings.CutPrefix(value, "Bearer "); ok {
			return token
		}
	}
	return ""
}

// certified returns the certificate that the sender of a call has shown; nil if it has none.
func certified(ctx context.Context) *x509.Certificate {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.VerifiedChains) > 0 {
			return info.State.PeerCertificates[0]
		}
	}
	return nil
}

// errNoToken is the error about a call without a token.
func errNoToken() error {
	return types.Errorf(types.Denied, "%w: the call has no token: set ESCHER_TOKEN, or send the metadata authorization: Bearer TOKEN", access.ErrUnauthenticated)
}

// Bearer returns identities by the tokens that calls carry or, without one, by the certificate that the
// agent of a node has shown.
func Bearer(a *access.Authority) func(ctx context.Context) (access.Identity, error) {
	return func(ctx context.Context) (access.Identity, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		if token := bearer(md); token != "" {
			return a.Identify(ctx, token)
		}
		if cert := certified(ctx); cert != nil {
			return a.Certified(cert)
		}
		return access.Identity{}, errNoToken()
	}
}

// Gateway serves etcd's API.
type Gateway struct {
	cfg   Config
	kv    pb.KVClient
	watch pb.WatchClient
	lease pb.LeaseClient
	codec codec
	base  user
	// leases bound the leases that subjects grant.
	leases *access.Gauges
	// unread counts calls whose sender is not identified yet.
	unread atomic.Int64

	mu sync.Mutex
	// tasks says when a task of a namespace was last seen bound to a node.
	tasks map[[2]string]time.Time
	named named
}

// New returns a server of gRPC that serves a gateway. The caller serves its listeners, and stops it.
func New(cfg Config) *grpc.Server {
	g := &Gateway{
		cfg: cfg, kv: pb.NewKVClient(cfg.Etcd), watch: pb.NewWatchClient(cfg.Etcd), lease: pb.NewLeaseClient(cfg.Etcd),
		codec: newCodec(),
		base:  user{reading: access.Readable(), writing: writable(), table: make(map[controlplane.Kind]writers.Access)},
		tasks: make(map[[2]string]time.Time), leases: access.NewGauges(access.Use{Rate: leaseRate, Burst: leaseBurst}, cfg.Now),
	}
	for _, a := range writers.Table() {
		g.base.table[a.Kind] = a
	}
	g.base.bound, g.base.namedBy = g.bound, g.namedBy
	s := grpc.NewServer(
		grpc.InTapHandle(g.tap), grpc.WaitForHandlers(true),
		grpc.UnaryInterceptor(g.unary), grpc.StreamInterceptor(g.stream),
		grpc.ForceServerCodecV2(g.codec), grpc.MaxRecvMsgSize(requestBytes), grpc.MaxConcurrentStreams(streamsOpen),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connWindow),
		grpc.ConnectionTimeout(handshakeTime), grpc.Creds(handshaken{}),
		// Clients ask every ten seconds whether the connection is alive, and a silent one is closed.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 4 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: 30 * time.Second, Timeout: 10 * time.Second, MaxConnectionIdle: 2 * time.Minute,
			MaxConnectionAge: connectionAge, MaxConnectionAgeGrace: time.Minute,
		}),
	)
	s.RegisterService(kvDescription(), kvServer{g: g})
	pb.RegisterWatchServer(s, watchServer{g: g})
	pb.RegisterLeaseServer(s, leaseServer{g: g})
	return s
}

// arrival is the key of what to call, once, when the sender of a call is identified.
type arrival struct{}

// tap refuses a call before its body is read, unless its sender has a certificate or a token. Of calls with
// a token that is not known yet, it lets some through: the token may be new.
func (g *Gateway) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	if g.cfg.Known == nil || certified(ctx) != nil {
		return ctx, nil
	}
	token := bearer(info.Header)
	switch {
	case token == "":
		return ctx, refusal(errNoToken())
	case g.cfg.Known(token):
		return ctx, nil
	case g.unread.Add(1) > unidentified:
		g.unread.Add(-1)
		return ctx, refusal(types.Errorf(types.Denied, "%w: the token is unknown, or was revoked: ask an administrator for one (escher auth token create)", access.ErrUnauthenticated))
	}
	read := sync.OnceFunc(func() { g.unread.Add(-1) })
	context.AfterFunc(ctx, read) // at the end of the call
	return context.WithValue(ctx, arrival{}, read), nil
}

// sender is the key of the user in the context of a call.
type sender struct{}

// enter identifies the sender of a call. It returns a context that ends when its credential does, and
// what to call at the end of the call.
func (g *Gateway) enter(ctx context.Context) (context.Context, func(), error) {
	id, err := g.cfg.Identify(ctx)
	if read, ok := ctx.Value(arrival{}).(func()); ok {
		read()
	}
	if err != nil {
		return nil, nil, err
	}
	leave, err := g.cfg.Use.Enter(id.Subject)
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
func (g *Gateway) bound(ctx context.Context, node, ns string) (bool, error) {
	at := [2]string{node, ns}
	now := g.cfg.Now()
	g.mu.Lock()
	seen := g.tasks[at]
	g.mu.Unlock()
	if now.Sub(seen) < boundFor {
		return true, nil
	}
	prefix := controlplane.Prefix(controlplane.Bindings, node, ns)
	res, err := g.kv.Range(ctx, &pb.RangeRequest{Key: []byte(prefix), RangeEnd: []byte(etcdstore.PrefixEnd(prefix)), Limit: 1, KeysOnly: true})
	if err != nil || len(res.Kvs) == 0 {
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.tasks) >= maxBound {
		clear(g.tasks)
	}
	g.tasks[at] = now
	return true, nil
}
