package etcdstore_test

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// answering is an etcd that answers every transaction with an error.
type answering struct {
	pb.UnimplementedKVServer
	err   error
	calls atomic.Int64
}

func (a *answering) Txn(context.Context, *pb.TxnRequest) (*pb.TxnResponse, error) {
	a.calls.Add(1)
	return nil, a.err
}

// serve starts it and returns its endpoint.
func (a *answering) serve(t *testing.T) string { return serveKV(t, a) }

// serveKV serves keys and returns the endpoint.
func serveKV(t *testing.T, kv pb.KVServer) string {
	t.Helper()
	listener, path := listen(t)
	server := grpc.NewServer()
	pb.RegisterKVServer(server, kv)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return "unix://" + path
}

func listen(t *testing.T) (net.Listener, string) {
	t.Helper()
	path := filepath.Join(shortDir(t), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener, path
}

// proxy forwards connections to an etcd until it is cut.
type proxy struct {
	path, to string
	// deaf drops the answers of the other side, and then the connection.
	deaf atomic.Bool

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	down  bool
}

func newProxy(t *testing.T, to string) *proxy {
	listener, path := listen(t)
	p := &proxy{path: path, to: to, conns: map[net.Conn]struct{}{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.pass(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.cut()
		serving.Wait()
	})
	return p
}

func (p *proxy) endpoint() string { return "unix://" + p.path }

// cut ends all connections and refuses new ones, until the proxy is mended.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for conn := range p.conns {
		_ = conn.Close()
	}
}

func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// add registers a connection for cut; it reports false if the proxy is cut.
func (p *proxy) add(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return false
	}
	p.conns[conn] = struct{}{}
	return true
}

func (p *proxy) pass(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("unix", p.to)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	if !p.add(client) || !p.add(server) {
		return
	}
	go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil || p.deaf.Load() {
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}
