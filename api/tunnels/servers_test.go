package tunnels_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/api/tunnels"
	"github.com/escher-sched/escher/types"
)

// TestForward reaches a node by another server, which ends what is open when the node changes its server.
func TestForward(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	s1, s2, s3 := c.start("s1"), c.start("s2"), c.start("s3")
	var mu sync.Mutex
	at := s1.url
	c.agent("n1", c.token("node:n1"), "hello", func() string {
		mu.Lock()
		defer mu.Unlock()
		return at
	})
	for _, s := range []*server{s1, s2, s3} {
		c.holds(s, "n1", "hello")
	}
	if _, err := c.says(s2, "n2"); !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "no server holds a tunnel of node n2") {
		t.Errorf("a node without a tunnel: %v", err)
	}
	open, err := s2.Dial(t.Context(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	mu.Lock()
	at = s3.url
	mu.Unlock()
	s1.stop()
	ends(t, open)
	c.holds(s2, "n1", "hello")
	if s3.Len() != 1 {
		t.Error("the agent is not at the other server")
	}
}

// TestStale: a server asks the others if the agent does not answer in the tunnel that it holds, as the agent
// has connected elsewhere meanwhile.
func TestStale(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	s1, s2 := c.start("s1"), c.start("s2")
	token := c.token("node:n1")
	api, err := client.New(client.Config{Server: s1.url, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	stale, err := tunnels.Connect(t.Context(), api, "n1")
	if err != nil {
		t.Fatal(err)
	}
	defer stale.Close()
	go io.Copy(io.Discard, stale) //nolint:errcheck // the agent behind it is gone, and the network takes all
	began := time.Now()
	for _, s := range []*server{s1, s2} {
		if _, err := s.Dial(t.Context(), "n1"); !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "its agent") {
			t.Errorf("a stale tunnel: %v", err)
		}
	}
	if lasted := time.Since(began); lasted > 20*time.Second {
		t.Errorf("it takes %s to notice", lasted)
	}
	c.agent("n1", token, "fresh", fixed(s2))
	c.await("the agent is at the other server", func() bool { return s2.Len() == 1 })
	for _, s := range []*server{s1, s2} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		conn, err := s.Dial(ctx, "n1")
		if err != nil {
			t.Fatal(err)
		}
		text := make([]byte, 5)
		if _, err := io.ReadFull(conn, text); string(text) != "fresh" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		conn.Close()
	}
}

// TestOneName: servers of one name are reached at once, such as one that started again before the key of the
// process before has ended.
func TestOneName(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	first, again, other := c.start("s1"), c.start("s1"), c.start("s2")
	c.agent("n1", c.token("node:n1"), "hello", fixed(again))
	c.agent("n2", c.token("node:n2"), "older", fixed(first))
	for _, s := range []*server{first, again, other} {
		c.holds(s, "n1", "hello")
		c.holds(s, "n2", "older")
	}
	if got := len(c.shown("s1")); got != 2 {
		t.Errorf("s1 has %d keys", got)
	}
}

// TestServersOnly: only servers of the cluster get streams, and only from servers of it.
func TestServersOnly(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	s1, s2 := c.start("s1"), c.start("s2")
	token := c.token("node:n1")
	c.agent("n1", token, "hello", fixed(s1))
	c.holds(s2, "n1", "hello")
	for _, given := range []string{"", token} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s1.url+"/v1/nodes/n1/stream", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"escher-stream"}, "Authorization": {"Bearer " + given}}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != http.StatusForbidden {
			t.Errorf("with %q: %d", given, res.StatusCode)
		}
	}
	// Another program at the address of s1 does not get its token.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other, err := tunnels.New(tunnels.Config{Name: "other", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.NotFoundHandler(), TLSConfig: tlsOf(other), ReadHeaderTimeout: time.Minute}
	go srv.ServeTLS(l, "", "") //nolint:errcheck // it ends with the listener
	defer func() { _ = srv.Close() }()
	c.register("s1", l.Addr().String())
	if _, err := c.says(s2, "n1"); !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "another program answers at its address: wait 15s if it has started again") {
		t.Errorf("another program: %v", err)
	}
	c.register("s1", "127.0.0.1:1")
	if _, err := c.says(s2, "n1"); !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "ask server s1 at 127.0.0.1:1") {
		t.Errorf("no program: %v", err)
	}
}

// tlsOf returns the configuration of the listener of a registry.
func tlsOf(r *tunnels.Registry) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: r.Certificate(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, net.ErrClosed })}
}
