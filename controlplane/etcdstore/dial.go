package etcdstore

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// The data in flight of one answer or watch, and of all. By default gRPC sizes the windows with a
// ping and its answer for most isolated messages, which costs both sides more than a small message.
const (
	streamWindow = 4 << 20
	connWindow   = 16 << 20
)

// Config is the configuration of a connection to etcd.
type Config struct {
	// Endpoints are host:port, http://host:port, https://host:port or
	// unix:///path of a socket.
	Endpoints []string
	// TLS is used if it is set; https endpoints need it.
	TLS *tls.Config
	// Token is the bearer's token for a server of Escher, which passes calls to its etcd; "" for etcd.
	Token string
	// DialTimeout bounds the time for one endpoint to answer; 0 means 3 s.
	DialTimeout time.Duration
	// Limits are the limits that etcd was started with. Zero: Dial detects them, and Open assumes
	// ServerLimits.
	Limits controlplane.Limits
	// Options are passed to New.
	Options []Option
}

// answerPatience is how many times longer than the connection its first answer may take: an etcd that
// is there answers late while its disk is slow.
const answerPatience = 5

// Dial connects to etcd. Unavailable, naming the endpoints: none of them answers within the
// timeout. Close closes the store.
func Dial(ctx context.Context, cfg Config) (*Store, error) {
	s, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	patience := cfg.withDefaults().DialTimeout
	reach, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.reach(reach); err != nil {
		_ = s.Close() // the store is unused
		return nil, err
	}
	if cfg.Limits == (controlplane.Limits{}) {
		if s.limits, err = s.detectLimits(ctx, answerPatience*patience); err != nil {
			_ = s.Close() // the store is unused
			return nil, err
		}
	}
	return s, nil
}

// Open returns a store without waiting for etcd: calls fail with Unavailable until it is reachable.
// Close closes the store.
func Open(cfg Config) (*Store, error) {
	if len(cfg.Endpoints) == 0 {
		return nil, types.Errorf(types.Invalid, "open etcd: no endpoint; name one, such as 127.0.0.1:2379")
	}
	cfg = cfg.withDefaults()
	opts := []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
		// With gRPC's own backoff an agent would reconnect only after two minutes.
		Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
		MinConnectTimeout: cfg.DialTimeout,
	}),
		grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow),
	}
	if cfg.TLS != nil && cfg.TLS.ServerName != "" {
		// etcd's client uses the host of the endpoint, whatever TLS says.
		opts = append(opts, grpc.WithAuthority(cfg.TLS.ServerName))
	}
	if cfg.Token != "" {
		if err := private(cfg); err != nil {
			return nil, err
		}
		opts = append(opts, grpc.WithPerRPCCredentials(bearer{cfg.Token, cfg.TLS != nil}))
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: cfg.Endpoints,
		TLS:       cfg.TLS,
		// Its log about each retried call would repeat the errors.
		Logger:               zap.NewNop(),
		DialKeepAliveTime:    10 * time.Second, // etcd refuses less than 5 s
		DialKeepAliveTimeout: 5 * time.Second,
		// Reads are retried for half a second, which outlasts most leader changes; callers that can
		// wait longer retry themselves.
		MaxUnaryRetries: 20,
		DialOptions:     opts,
	})
	if err != nil {
		return nil, types.Errorf(types.Invalid, "open etcd at %v: %w", cfg.Endpoints, err)
	}
	return New(client, cfg.Limits, cfg.Options...), nil
}

// private returns an error if a token would be sent to another machine without encryption.
func private(cfg Config) error {
	for _, e := range cfg.Endpoints {
		u, err := url.Parse(e)
		if err != nil || u.Host == "" {
			u = &url.URL{Host: e}
		}
		if host := u.Hostname(); cfg.TLS == nil && !strings.HasPrefix(e, "unix:") && host != "localhost" && !net.ParseIP(host).IsLoopback() {
			return types.Errorf(types.Invalid, "server: %q: a token is not sent without encryption: write https://%s", e, u.Host)
		}
	}
	return nil
}

// bearer sends a token with each call.
type bearer struct {
	token string
	// secure reports whether it may only be sent encrypted.
	secure bool
}

// GetRequestMetadata returns what a call carries.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + b.token}, nil
}

// RequireTransportSecurity reports whether the token may only be sent encrypted.
func (b bearer) RequireTransportSecurity() bool { return b.secure }

func (c Config) withDefaults() Config {
	if c.DialTimeout == 0 {
		c.DialTimeout = 3 * time.Second
	}
	if c.Limits == (controlplane.Limits{}) {
		c.Limits = ServerLimits()
	}
	return c
}

// reach waits for a connection. It asks etcd nothing, because the permitted requests depend on its
// identity.
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

// whyNot returns the reason for the missing connection, which only a call reveals.
func (s *Store) whyNot(ctx context.Context) error {
	stream, err := s.watch.Watch(ctx, s.calls...)
	if err == nil {
		_, err = stream.Recv()
	}
	return types.Errorf(types.Unavailable, "reach etcd at %s: %w", s.at(), cause(ctx, err))
}
