// Package etcdtest starts a real etcd for a test.
package etcdtest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// MaxTxnOps is the largest number of operations in a transaction, as in Escher's own etcd.
const MaxTxnOps = 4096

// Server is a member of an etcd, usually the only one. It listens on a Unix socket.
type Server struct {
	// Client is connected to the member.
	Client *clientv3.Client
	// Endpoint is its address, unix:///path.
	Endpoint string
	// Etcd is the member itself.
	Etcd *embed.Etcd
}

// Option changes the configuration of an etcd before it starts.
type Option func(*embed.Config)

// WithQuota bounds the database, in bytes.
func WithQuota(bytes int64) Option {
	return func(c *embed.Config) { c.QuotaBackendBytes = bytes }
}

// WithMaxTxnOps bounds the operations of a transaction.
func WithMaxTxnOps(n uint) Option {
	return func(c *embed.Config) { c.MaxTxnOps = n }
}

// WithDir sets the directory of data and socket, which must be short and exist. Two servers, one
// after the other, share its content.
func WithDir(dir string) Option {
	return func(c *embed.Config) { setDirs(c, dir) }
}

// WithTLS makes it listen on host:port too, for clients with a certificate. cert and key are its
// own, ca that of the clients' authority: PEM files.
func WithTLS(address, cert, key, ca string) Option {
	return func(c *embed.Config) {
		at := url.URL{Scheme: "https", Host: address}
		c.ListenClientUrls = append(c.ListenClientUrls, at)
		c.AdvertiseClientUrls = append(c.AdvertiseClientUrls, at)
		c.ClientTLSInfo = transport.TLSInfo{CertFile: cert, KeyFile: key, TrustedCAFile: ca, ClientCertAuth: true}
	}
}

// Start starts an etcd that stops at the end of the test. It logs nothing, syncs nothing to disk,
// and elects itself within some 100 ms, so that its leases may be as short as 1 s.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return StartMembers(t, 1, opts...)[0]
}

// StartMembers starts an etcd of n members, each like Start.
func StartMembers(t testing.TB, n int, opts ...Option) []*Server {
	t.Helper()
	configs, cluster := make([]*embed.Config, n), make([]string, n)
	for i := range configs {
		configs[i] = configure(t, opts)
		configs[i].Name = fmt.Sprint("test-", i)
		if n > 1 {
			peerOverTCP(t, configs[i])
		}
		cluster[i] = configs[i].InitialClusterFromName(configs[i].Name)
	}
	members := make([]*Server, n)
	for i, cfg := range configs {
		cfg.InitialCluster = strings.Join(cluster, ",")
		etcd, err := embed.StartEtcd(cfg)
		if err != nil {
			t.Fatalf("start etcd: %v", err)
		}
		t.Cleanup(etcd.Close)
		members[i] = &Server{Endpoint: cfg.ListenClientUrls[0].String(), Etcd: etcd}
	}
	for _, s := range members {
		select {
		case <-s.Etcd.Server.ReadyNotify():
		case err := <-s.Etcd.Err():
			t.Fatalf("start etcd: %v", err)
		case <-time.After(time.Minute):
			t.Fatal("start etcd: not ready within a minute")
		}
		s.Client = Connect(t, s.Endpoint)
	}
	return members
}

// peerOverTCP makes a member speak to the others over TCP, because peers do not use Unix sockets.
func peerOverTCP(t testing.TB, cfg *embed.Config) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := []url.URL{{Scheme: "http", Host: l.Addr().String()}}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = at, at
}

// configure returns the configuration of a member.
func configure(t testing.TB, opts []Option) *embed.Config {
	t.Helper()
	cfg := embed.NewConfig()
	// Not t.TempDir: the path of a socket has at most 107 bytes.
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	setDirs(cfg, dir)
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.UnsafeNoFsync = true
	cfg.MaxTxnOps = MaxTxnOps
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	for _, opt := range opts {
		opt(cfg)
	}
	return cfg
}

// SetFull raises or clears the alarm of a full database.
func (s *Server) SetFull(ctx context.Context, full bool) error {
	req := &pb.AlarmRequest{
		Action: pb.AlarmRequest_DEACTIVATE, MemberID: uint64(s.Etcd.Server.MemberID()), Alarm: pb.AlarmType_NOSPACE,
	}
	if full {
		req.Action = pb.AlarmRequest_ACTIVATE
	}
	_, err := s.Etcd.Server.Alarm(ctx, req)
	return err
}

// Connect returns a client that is closed at the end of the test.
func Connect(t testing.TB, endpoints ...string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		t.Fatalf("connect to etcd: %v", err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// setDirs puts data and sockets into a directory.
func setDirs(c *embed.Config, dir string) {
	c.Dir = filepath.Join(dir, "data")
	client := []url.URL{{Scheme: "unix", Path: filepath.Join(dir, "client")}}
	peer := []url.URL{{Scheme: "unix", Path: filepath.Join(dir, "peer")}}
	c.ListenClientUrls, c.AdvertiseClientUrls = client, client
	c.ListenPeerUrls, c.AdvertisePeerUrls = peer, peer
}
