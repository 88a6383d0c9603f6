package server

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane/etcdstore"
)

// HTTP/2's preface and frame layout: RFC 9113.
const (
	preface   = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	framePing = 6
	flagAck   = 1
)

// countPings counts the pings, without answers, from one side.
func countPings(from io.Reader, skip int, pings *atomic.Int64) {
	r := bufio.NewReader(from)
	_, _ = r.Discard(skip)
	var head [9]byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
		if head[3] == framePing && head[4]&flagAck == 0 {
			pings.Add(1)
		}
		size := binary.BigEndian.Uint32(append([]byte{0}, head[:3]...))
		if _, err := r.Discard(int(size)); err != nil {
			return
		}
	}
}

// tap forwards one connection to a socket, and counts the pings of both sides.
func tap(t *testing.T, to string, byClient, byServer *atomic.Int64) (endpoint string) {
	dir, err := os.MkdirTemp("", "tap") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var passing sync.WaitGroup
	pass := func(dst, src net.Conn, skip int, pings *atomic.Int64) {
		r, w := io.Pipe()
		passing.Go(func() { countPings(r, skip, pings) })
		passing.Go(func() {
			_, _ = io.Copy(dst, io.TeeReader(src, w))
			_, _, _ = w.Close(), dst.Close(), src.Close()
		})
	}
	passing.Go(func() {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", to)
		if err != nil {
			t.Error(err)
			_ = client.Close()
			return
		}
		pass(server, client, len(preface), byClient)
		pass(client, server, 0, byServer)
	})
	t.Cleanup(func() { _ = listener.Close(); passing.Wait() })
	return "unix://" + path
}

// TestNoPings checks that small isolated requests and answers, such as renewals, cause no other
// traffic. By default gRPC sends a ping with each to size its windows.
func TestNoPings(t *testing.T) {
	r := run(t, Config{Dir: t.TempDir()})
	at, err := url.Parse(r.endpoint)
	if err != nil {
		t.Fatal(err)
	}
	var byClient, byServer atomic.Int64
	s, err := etcdstore.Open(etcdstore.Config{Endpoints: []string{tap(t, at.Path, &byClient, &byServer)}})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := s.GrantLease(t.Context(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := s.RenewLease(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if c, e := byClient.Load(), byServer.Load(); c > 0 || e > 0 {
		t.Errorf("the client pinged %d times, etcd %d times", c, e)
	}
}
