package etcdstore

import (
	"context"
	"crypto/tls"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// How much etcd may send ahead of what was read, of one answer or watch and of all. Left to
// itself, gRPC finds that out: with a ping, and its answer, for most messages that come
// alone, which cost both sides more than a small message does.
const (
	streamWindow = 4 << 20
	connWindow   = 16 << 20
)

// Config says how to reach etcd.
type Config struct {
	// Endpoints are host:port, http://host:port, https://host:port or
	// unix:///path of a socket.
	Endpoints []string
	// TLS is used if it is set; https endpoints need it.
	TLS *tls.Config
	// DialTimeout bounds how long one endpoint may take to answer; 0 is 3 s.
	DialTimeout time.Duration
	// Limits are those that etcd was started with. Zero: Dial asks for them, Open
	// takes them for ServerLimits.
	Limits controlplane.Limits
	// Options are given to New.
	Options []Option
}

// Dial makes a store that was reached: Unavailable, naming the endpoints, when
// none of them answers within the dial time-out. Close closes it.
func Dial(ctx context.Context, cfg Config) (*Store, error) {
	s, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	patience := cfg.withDefaults().DialTimeout
	reach, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.reach(reach); err != nil {
		_ = s.Close() // there is nothing to lose
		return nil, err
	}
	if cfg.Limits == (controlplane.Limits{}) {
		if s.limits, err = s.detectLimits(ctx, patience); err != nil {
			_ = s.Close() // there is nothing to lose
			return nil, err
		}
	}
	return s, nil
}

// Open makes a store without waiting for etcd: calls fail with Unavailable until
// it is there. Close closes it.
func Open(cfg Config) (*Store, error) {
	if len(cfg.Endpoints) == 0 {
		return nil, types.Errorf(types.Invalid, "open etcd: no endpoint; name one, such as 127.0.0.1:2379")
	}
	cfg = cfg.withDefaults()
	opts := []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
		// gRPC's own would have an agent back after two minutes.
		Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
		MinConnectTimeout: cfg.DialTimeout,
	}),
		grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow),
	}
	if cfg.TLS != nil && cfg.TLS.ServerName != "" {
		// The client of etcd takes the host of the endpoint, whatever TLS says.
		opts = append(opts, grpc.WithAuthority(cfg.TLS.ServerName))
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: cfg.Endpoints,
		TLS:       cfg.TLS,
		// What it has to say, of every call that it tries again, is in the errors.
		Logger:               zap.NewNop(),
		DialKeepAliveTime:    10 * time.Second, // etcd refuses less than 5 s
		DialKeepAliveTimeout: 5 * time.Second,
		// Reads are tried again for half a second, which outlasts most
		// changes of leader; the callers that can wait longer do so.
		MaxUnaryRetries: 20,
		DialOptions:     opts,
	})
	if err != nil {
		return nil, types.Errorf(types.Invalid, "open etcd at %v: %w", cfg.Endpoints, err)
	}
	return New(client, cfg.Limits, cfg.Options...), nil
}

func (c Config) withDefaults() Config {
	if c.DialTimeout == 0 {
		c.DialTimeout = 3 * time.Second
	}
	if c.Limits == (controlplane.Limits{}) {
		c.Limits = ServerLimits()
	}
	return c
}

// reach waits for a connection. It does not ask etcd anything: what it may ask
// depends on who it is.
func (s *Store) reach(ctx context.Context) error {
	conn := s.client.ActiveConnection()
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if state == connectivity.TransientFailure {
			return s.whyNot(ctx)
		}
		if !conn.WaitForStateChange(ctx, state) {
			return types.Errorf(types.Unavailable, "reach etcd at %s: no answer: %w", s.at(), ctx.Err())
		}
	}
	return nil
}

// whyNot returns what kept the connection from being made: only a call is told.
func (s *Store) whyNot(ctx context.Context) error {
	stream, err := s.watch.Watch(ctx, s.calls...)
	if err == nil {
		_, err = stream.Recv()
	}
	return types.Errorf(types.Unavailable, "reach etcd at %s: %w", s.at(), cause(ctx, err))
}
