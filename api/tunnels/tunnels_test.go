package tunnels_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/api/tunnels"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/nodeagent/serve/tunnel"
	"github.com/escher-sched/escher/types"
)

// cluster is servers that share a store.
type cluster struct {
	*testing.T
	access.Manager
	log *zap.Logger
}

func newCluster(t *testing.T) *cluster {
	return &cluster{t, access.Manager{Store: memstore.New(), Now: time.Now}, zap.NewNop()}
}

// token makes a token of a subject.
func (c *cluster) token(subject string) string {
	c.Helper()
	_, token, err := c.MakeToken(c.Context(), access.From(c.Context()), types.Credential{Subject: subject}, time.Hour)
	if err != nil {
		c.Fatal(err)
	}
	return token
}

// server is a server of a cluster.
type server struct {
	*tunnels.Registry
	url  string
	stop func()
}

// start starts a server until the end of the test, and registers its address.
func (c *cluster) start(name string) *server {
	c.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.Fatal(err)
	}
	registry, err := tunnels.New(tunnels.Config{Store: c.Store, Name: name, Address: l.Addr().String(), Now: time.Now, Log: c.log})
	if err != nil {
		c.Fatal(err)
	}
	authority := access.New(c.Store, time.Now, zap.NewNop())
	ctx, cancel := context.WithCancel(context.Background())
	before := len(c.shown(name))
	var group sync.WaitGroup
	for _, run := range []func(context.Context) error{registry.Run, authority.Run} {
		group.Go(func() {
			if err := run(ctx); !errors.Is(err, context.Canceled) {
				c.Error(err)
			}
		})
	}
	other := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the API of "+name) })
	handler := registry.Handler(other, authority, rest.Bearer(authority))
	plain, encrypted := httptest.NewServer(handler), httptest.NewUnstartedServer(handler)
	encrypted.Listener.Close()
	encrypted.Listener, encrypted.TLS = l, new(tls.Config)
	encrypted.TLS.GetCertificate = registry.Certificate(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("none") })
	encrypted.StartTLS()
	stop := sync.OnceFunc(func() {
		cancel()
		plain.Close()
		encrypted.Close()
		group.Wait()
	})
	c.Cleanup(stop)
	s := &server{registry, plain.URL, stop}
	c.await("it runs", func() bool {
		_, err := authority.Identify(c.Context(), "x")
		return types.Is(err, types.Denied) && len(c.shown(name)) > before
	})
	return s
}

// shown returns the keys of the processes of a server.
func (c *cluster) shown(name string) []controlplane.KV {
	c.Helper()
	all, _, err := controlplane.ListAll(c.Context(), c.Store, controlplane.ListOptions{Prefix: controlplane.LeaderKey("tunnels." + name + ".")})
	if err != nil {
		c.Fatal(err)
	}
	return all
}

// register changes the address of a server in its key.
func (c *cluster) register(name, hostport string) {
	c.Helper()
	all := c.shown(name)
	if len(all) != 1 {
		c.Fatalf("%s has %d keys", name, len(all))
	}
	kv := all[0]
	var l types.Leader
	if !controlplane.Read(kv, &l) {
		c.Fatalf("%s has no key", name)
	}
	_, hash, _ := strings.Cut(l.Address, "#")
	l.Address = "https://" + hostport + "#" + hash
	change := controlplane.NewChange(controlplane.NewBatch())
	change.PutOn(kv.Key, &l, kv.Lease)
	if _, err := c.Store.Commit(c.Context(), change.Txn()); err != nil {
		c.Fatal(err)
	}
}

// await waits until something holds.
func (c *cluster) await(what string, holds func() bool) {
	c.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(15 * time.Second); !holds(); <-tick.C {
		if time.Now().After(until) {
			c.Fatalf("not in time: %s", what)
		}
	}
}

// agent runs the agent of a node, which answers each stream with a text, and returns what ends it. at is the
// address of its server, which may change.
func (c *cluster) agent(node, token, says string, at func() string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	a := tunnel.New(func(ctx context.Context) (io.ReadWriteCloser, error) {
		api, err := client.New(client.Config{Server: at(), Token: token})
		if err != nil {
			return nil, err
		}
		defer api.Close()
		return tunnels.Connect(ctx, api, node)
	}, nil)
	l := a.Listen()
	var group sync.WaitGroup
	group.Go(func() { _ = a.Run(ctx) })
	group.Go(func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			group.Go(func() {
				defer conn.Close()
				_, _ = io.WriteString(conn, says)
				_, _ = io.Copy(io.Discard, conn) // until the server closes it
			})
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		l.Close()
		group.Wait()
	})
	c.Cleanup(stop)
	return stop
}

// fixed returns the address of a server.
func fixed(s *server) func() string { return func() string { return s.url } }

// says returns what the agent of a node says by a server.
func (c *cluster) says(s *server, node string) (string, error) {
	ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second)
	defer cancel()
	conn, err := s.Dial(ctx, node)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	text := make([]byte, 5)
	_, err = io.ReadFull(conn, text)
	return string(text), err
}

// ends reads a connection, which ends within 10 seconds.
func ends(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return // it has ended
	}
	_, err := io.Copy(io.Discard, conn)
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		t.Error("the connection goes on")
	}
}

// holds waits until a server reaches an agent that says a text.
func (c *cluster) holds(s *server, node, want string) {
	c.Helper()
	c.await("the agent says "+want, func() bool {
		text, err := c.says(s, node)
		return err == nil && text == want
	})
}

// TestTunnel reaches an agent by its tunnel, also after its server ended. All other requests are those of the
// API.
func TestTunnel(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	s := c.start("s1")
	if _, err := c.says(s, "n1"); !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "no server holds a tunnel of node n1") {
		t.Errorf("before: %v", err)
	}
	var mu sync.Mutex
	at := s.url
	c.agent("n1", c.token("node:n1"), "hello", func() string {
		mu.Lock()
		defer mu.Unlock()
		return at
	})
	c.holds(s, "n1", "hello")
	res, err := http.Get(s.url + "/v1/nodes/n1/other")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); string(text) != "the API of s1" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	conn, err := s.Dial(t.Context(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s.stop()
	if s.Len() != 0 {
		t.Error("it ended with tunnels")
	}
	ends(t, conn)
	next := c.start("s2")
	mu.Lock()
	at = next.url
	mu.Unlock()
	c.holds(next, "n1", "hello")
}

// TestAuthorized: only the agent of a node holds its tunnel.
func TestAuthorized(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	s := c.start("s1")
	for name, x := range map[string]struct {
		token, node string
		want        types.Class
		says        string
	}{
		"the node":            {c.token("node:n1"), "n1", 0, ""},
		"another node":        {c.token("node:n2"), "n1", types.Denied, "the sender is node:n2"},
		"a user":              {c.token("user:n1"), "n1", types.Denied, "the sender is user:n1"},
		"no token":            {"", "n1", types.Denied, "the request has no token"},
		"a wrong token":       {"escher_x_y", "n1", types.Denied, "the token is unknown"},
		"a name that is none": {c.token("node:n3"), "a b", types.Invalid, "node"},
	} {
		t.Run(name, func(t *testing.T) {
			api, err := client.New(client.Config{Server: s.url, Token: x.token})
			if err != nil {
				t.Fatal(err)
			}
			defer api.Close()
			conn, err := tunnels.Connect(t.Context(), api, x.node)
			if x.want == 0 {
				if err != nil {
					t.Fatal(err)
				}
				conn.Close()
				return
			}
			if !types.Is(err, x.want) || !strings.Contains(err.Error(), x.says) {
				t.Errorf("%v, want %q", err, x.says)
			}
		})
	}
	c.await("the tunnel is gone", func() bool { return s.Len() == 0 })
	older := httptest.NewServer(http.NotFoundHandler())
	defer older.Close()
	for address, says := range map[string]string{older.URL: "it takes none", "http://127.0.0.1:1": "open a tunnel"} {
		api, err := client.New(client.Config{Server: address})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tunnels.Connect(t.Context(), api, "n1"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", address, err)
		}
	}
	res, err := http.Get(s.url + "/v1/nodes/n1/tunnel")
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusBadRequest {
		t.Errorf("without an upgrade: %d", res.StatusCode)
	}
}

// TestRevoked: the end of the credential of a node ends its tunnel, and what is open there.
func TestRevoked(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	s := c.start("s1")
	token := c.token("node:n1")
	stop := c.agent("n1", token, "hello", fixed(s))
	c.holds(s, "n1", "hello")
	conn, err := s.Dial(t.Context(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	id := strings.Split(token, "_")[1]
	began := time.Now()
	if err := c.RevokeToken(t.Context(), access.From(t.Context()), id); err != nil {
		t.Fatal(err)
	}
	ends(t, conn)
	c.await("it is closed", func() bool { return s.Len() == 0 })
	if lasted := time.Since(began); lasted > 5*time.Second {
		t.Errorf("it lasts %s", lasted)
	}
	stop()
}

// TestReplaced: the newest tunnel of a node replaces an older one. Of an agent that opens many, some are
// refused.
func TestReplaced(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	s := c.start("s1")
	token := c.token("node:n1")
	api, err := client.New(client.Config{Server: s.url, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	older, err := tunnels.Connect(t.Context(), api, "n1")
	if err != nil {
		t.Fatal(err)
	}
	c.agent("n1", token, "newer", fixed(s))
	began := time.Now()
	_, _ = io.Copy(io.Discard, older) // it ends, in one way or another
	if lasted := time.Since(began); lasted > 5*time.Second {
		t.Errorf("the older one lasts %s", lasted)
	}
	c.holds(s, "n1", "newer")
	if s.Len() != 1 {
		t.Errorf("%d tunnels", s.Len())
	}
	for range 30 {
		conn, err := tunnels.Connect(t.Context(), api, "n1")
		if err != nil {
			if !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "too many requests") {
				t.Error(err)
			}
			return
		}
		conn.Close()
	}
	t.Error("it opens 30 at once")
}
