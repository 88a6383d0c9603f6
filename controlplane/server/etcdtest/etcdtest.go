// Package etcdtest starts a real etcd for a test.
package etcdtest

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// MaxTxnOps is how many operations a transaction may have, as in the etcd that
// Escher runs itself.
const MaxTxnOps = 4096

// Server is an etcd of one member, listening on a Unix socket.
type Server struct {
	// Client is connected to it.
	Client *clientv3.Client
	// Endpoint is where it listens, unix:///path.
	Endpoint string
	// Etcd is the server itself.
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

// WithDir sets the directory of the data and the socket, which must be short and
// exist already: two servers, one after the other, share what is in it.
func WithDir(dir string) Option {
	return func(c *embed.Config) { place(c, dir) }
}

// WithTLS has it listen at host:port, too, for clients that show a certificate. cert
// and key are its own, ca that of the authority of theirs: files in PEM.
func WithTLS(address, cert, key, ca string) Option {
	return func(c *embed.Config) {
		at := url.URL{Scheme: "https", Host: address}
		c.ListenClientUrls = append(c.ListenClientUrls, at)
		c.AdvertiseClientUrls = append(c.AdvertiseClientUrls, at)
		c.ClientTLSInfo = transport.TLSInfo{CertFile: cert, KeyFile: key, TrustedCAFile: ca, ClientCertAuth: true}
	}
}

// Start starts an etcd that stops at the end of the test. It says nothing, syncs
// nothing to disk, and elects itself within some 100 ms, so that its leases may
// be as short as 1 s.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	cfg := embed.NewConfig()
	// Not t.TempDir: a socket's path has at most 107 bytes.
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	place(cfg, dir)
	cfg.Name = "test"
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.UnsafeNoFsync = true
	cfg.MaxTxnOps = MaxTxnOps
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	for _, opt := range opts {
		opt(cfg)
	}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)

	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatalf("start etcd: %v", err)
	}
	t.Cleanup(etcd.Close)
	select {
	case <-etcd.Server.ReadyNotify():
	case err := <-etcd.Err():
		t.Fatalf("start etcd: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("start etcd: not ready within a minute")
	}
	endpoint := cfg.ListenClientUrls[0].String()
	return &Server{Client: Connect(t, endpoint), Endpoint: endpoint, Etcd: etcd}
}

// SetFull raises or ends the alarm of a full database.
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

// Connect makes a client that is closed at the end of the test.
func Connect(t testing.TB, endpoint string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatalf("connect to etcd: %v", err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// place puts data and sockets into a directory.
func place(c *embed.Config, dir string) {
	c.Dir = filepath.Join(dir, "data")
	client := []url.URL{{Scheme: "unix", Path: filepath.Join(dir, "client")}}
	peer := []url.URL{{Scheme: "unix", Path: filepath.Join(dir, "peer")}}
	c.ListenClientUrls, c.AdvertiseClientUrls = client, client
	c.ListenPeerUrls, c.AdvertisePeerUrls = peer, peer
}
