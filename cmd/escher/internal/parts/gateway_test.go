package parts

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/certs"
	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/api/contexts"
	"github.com/escher-sched/escher/api/tunnels"
	"github.com/escher-sched/escher/cmd/escher/internal/ops"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// freePort returns a port of this machine that nothing listens at.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestGateway serves the gateway and the HTTP API at one port, and at the socket of root.
func TestGateway(t *testing.T) {
	socket, plain := "unix://"+filepath.Join(t.TempDir(), "api.sock"), "http://127.0.0.1:"+freePort(t)
	j := newJoined(t, socket, plain)
	https := j.join.Server
	root, err := client.New(client.Config{Server: socket})
	if err != nil {
		t.Fatal(err)
	}
	var made struct{ Token string }
	if err := root.Do(t.Context(), http.MethodPost, "/v1/tokens", map[string]any{"subject": "node:n1"}, &made); err != nil {
		t.Fatal(err)
	}
	cacert := etcdstore.Address{CACert: j.join.CACert}
	for name, c := range map[string]struct {
		place contexts.Place
		says  string
	}{
		"the socket":            {contexts.Place{Server: socket}, ""},
		"a token":               {contexts.Place{Server: https, Address: cacert, Token: made.Token}, ""},
		"a token, this machine": {contexts.Place{Server: plain, Token: made.Token}, ""},
		"no token":              {contexts.Place{Server: https, Address: cacert}, "the call has no token"},
		"a wrong token":         {contexts.Place{Server: https, Address: cacert, Token: made.Token + "x"}, "the token is unknown"},
		"an unknown authority":  {contexts.Place{Server: https, Token: made.Token}, "signed by unknown authority"},
		"no encryption":         {contexts.Place{Server: strings.Replace(https, "https", "http", 1), Token: made.Token}, "reach etcd"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := c.place.Dial(t.Context())
			if err != nil {
				if c.says == "" || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v, want %q", err, c.says)
				}
				return
			}
			defer s.Close() //nolint:errcheck // it only reads
			_, err = s.List(t.Context(), controlplane.ListOptions{Key: controlplane.NodeKey("n1")})
			if (c.says == "") != (err == nil) {
				t.Errorf("%v, want %q", err, c.says)
			}
			_, err = s.List(t.Context(), controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Tasks, "a")})
			if root := c.place.Server == socket; c.says == "" && (err == nil) != root || err != nil && !types.Is(err, types.Denied) {
				t.Errorf("tasks: %v", err)
			}
		})
	}
	api, err := client.New(client.Config{Server: https, CACert: cacert.CACert, Token: made.Token})
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Get(t.Context(), "/v1/whoami", nil, nil); err != nil {
		t.Errorf("the HTTP API at the same port: %v", err)
	}
}

// joined is a server whose gateway and API sign and take certificates of nodes.
type joined struct {
	t *testing.T
	access.Manager
	join Join
	held *tunnels.Registry
}

// newJoined starts the server, which has other addresses, too.
func newJoined(t *testing.T, others ...string) *joined {
	t.Helper()
	srv, pki := etcdtest.Start(t), t.TempDir()
	store := etcdstore.New(srv.Client, etcdstore.ServerLimits())
	ca, err := certs.Open(pki, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.Server(pki, "s.pem", "s.key", []string{"localhost"}, time.Now(), time.Hour); err != nil {
		t.Fatal(err)
	}
	stack := NewStack(t.Context(), zap.NewNop(), new(ops.Health))
	t.Cleanup(func() {
		if err := stack.Unwind(); err != nil {
			t.Error(err)
		}
	})
	held, err := tunnels.New(tunnels.Config{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	https := "https://localhost:" + freePort(t)
	err = StartREST(stack, RESTConfig{
		Addresses: append(others, https), Cert: filepath.Join(pki, "s.pem"), Key: filepath.Join(pki, "s.key"), CADir: pki, Store: store, Log: zap.NewNop(), Tunnels: held,
		Etcd: &etcdstore.Config{Endpoints: srv.Client.Endpoints(), Limits: etcdstore.ServerLimits()},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &joined{t, access.Manager{Store: store, Now: time.Now}, Join{Server: https, CACert: filepath.Join(pki, certs.CAFile)}, held}
}

// token makes a token of node n1.
func (j *joined) token() string {
	j.t.Helper()
	_, token, err := j.MakeToken(j.t.Context(), access.From(j.t.Context()), types.Credential{Subject: "node:n1"}, time.Hour)
	if err != nil {
		j.t.Fatal(err)
	}
	return token
}

// identify is the start of the agent of n1 in a directory.
func (j *joined) identify(dir, token string) (*nodeIdentity, error) {
	join := j.join
	join.Token = token
	return join.identify(j.t.Context(), "n1", dir, func(string, ...any) {}, zap.NewNop())
}

// uses returns nil if a certificate opens the gateway and the HTTP API.
func (j *joined) uses(id *nodeIdentity) error {
	j.t.Helper()
	cfg, err := contexts.Place{Server: j.join.Server, Address: etcdstore.Address{CACert: j.join.CACert}}.Store()
	if err != nil {
		j.t.Fatal(err)
	}
	cfg.TLS.GetClientCertificate = id.present
	s, err := etcdstore.Open(cfg)
	if err != nil {
		j.t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // it only reads
	api, err := client.New(client.Config{Server: j.join.Server, CACert: j.join.CACert, Certificate: id.present})
	if err != nil {
		j.t.Fatal(err)
	}
	_, err = s.List(j.t.Context(), controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Bindings, "n1")})
	if told := api.Get(j.t.Context(), "/v1/whoami", nil, nil); (told == nil) != (err == nil) {
		j.t.Errorf("the gateway says %v, and the HTTP API %v", err, told)
	}
	return err
}

// TestNodeIdentity: an agent joins by a token once, has the certificate after a restart, and renews it. Its
// name is its own.
func TestNodeIdentity(t *testing.T) {
	j, dir := newJoined(t), t.TempDir()
	if _, err := j.identify(dir, ""); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "escher auth token create --for node:n1") {
		t.Errorf("without a token: %v", err)
	}
	token := j.token()
	id, err := j.identify(dir, token)
	if err != nil || !id.has() {
		t.Fatal(err)
	}
	if err := j.uses(id); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(dir, nodeKeyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}
	again, err := j.identify(dir, "")
	if err != nil || !again.has() {
		t.Fatalf("after a restart: %v", err)
	}
	first := again.cert.Load().Leaf
	if err := again.obtain(t.Context(), ""); err != nil || again.cert.Load().Leaf.SerialNumber.Cmp(first.SerialNumber) == 0 {
		t.Errorf("it renews: %v", err)
	}
	if at := renewal(first); at.Before(time.Now().Add(12*time.Hour)) || first.NotAfter.Sub(at) < 6*time.Hour {
		t.Errorf("it renews at %s, and has until %s", at, first.NotAfter)
	}
	if _, err := j.identify(t.TempDir(), token); !types.Is(err, types.Denied) || !strings.Contains(err.Error(), "was revoked") {
		t.Errorf("another machine joins by the same token: %v", err)
	}
	if _, err := j.identify(t.TempDir(), j.token()); !types.Is(err, types.Denied) || !strings.Contains(err.Error(), "escher auth token revoke node.n1") {
		t.Errorf("another machine takes the name: %v", err)
	}
	if kept, err := j.identify(dir, j.token()); err != nil || kept.cert.Load().Leaf.SerialNumber.Cmp(again.cert.Load().Leaf.SerialNumber) != 0 {
		t.Errorf("with a token that it does not need: %v", err)
	}
	if err := j.RevokeToken(t.Context(), access.From(t.Context()), "node.n1"); err != nil {
		t.Fatal(err)
	}
	j.await("the certificate is revoked", func() bool { return j.uses(again) != nil })
	anew, err := j.identify(dir, j.token())
	if err != nil || bytes.Equal(anew.cert.Load().Leaf.RawSubjectPublicKeyInfo, first.RawSubjectPublicKeyInfo) {
		t.Errorf("it joins again, with a new key: %v", err)
	}
}

// await waits until something holds.
func (j *joined) await(what string, holds func() bool) {
	j.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(10 * time.Second); !holds(); <-tick.C {
		if time.Now().After(until) {
			j.t.Fatalf("not in time: %s", what)
		}
	}
}

// TestFalseIdentity: a certificate of another authority opens nothing, and neither does a revoked one.
func TestFalseIdentity(t *testing.T) {
	j, dir := newJoined(t), t.TempDir()
	id, err := j.identify(dir, j.token())
	if err != nil {
		t.Fatal(err)
	}
	another, err := certs.Open(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(dir, nodeKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	request, err := certs.Request(key, "n1")
	if err != nil {
		t.Fatal(err)
	}
	forged := &nodeIdentity{node: "n1", dir: t.TempDir(), join: j.join, log: zap.NewNop()}
	signed, _, _, err := another.Sign(request, "n1", time.Now())
	if err := errors.Join(err, writeFile(filepath.Join(forged.dir, nodeKeyFile), key), writeFile(filepath.Join(forged.dir, nodeCertFile), signed)); err != nil || !forged.load() {
		t.Fatal(err)
	}
	if err := j.uses(forged); err == nil {
		t.Error("a certificate of another authority opens it")
	}
	if err := j.uses(id); err != nil {
		t.Error(err)
	}
	if err := j.RevokeToken(t.Context(), access.From(t.Context()), "node.n1"); err != nil {
		t.Fatal(err)
	}
	j.await("the certificate is revoked", func() bool { return j.uses(id) != nil })
}

// tunnel runs the agent's side of a tunnel with an identity, and answers each stream with the name of the
// node. The returned function ends it.
func (j *joined) tunnel(node string, id *nodeIdentity) (end func()) {
	j.t.Helper()
	join := j.join
	join.identity = id
	stack := NewStack(j.t.Context(), zap.NewNop(), new(ops.Health))
	agent := Agent{}
	(&way{tunneled: true}).serve(stack, &AgentConfig{Join: join, Agent: nodeagent.Config{Node: node}, Log: zap.NewNop()}, &agent)
	l, _, err := agent.Listen("")
	if err != nil {
		j.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			_, _ = io.WriteString(conn, node)
			conn.Close()
		}
	}()
	return sync.OnceFunc(func() {
		if err := errors.Join(stack.Unwind(), l.Close()); err != nil {
			j.t.Error(err)
		}
		<-ended
	})
}

// reaches reports whether the server reaches a node by its tunnel.
func (j *joined) reaches(node string) bool {
	ctx, cancel := context.WithTimeout(j.t.Context(), time.Second)
	defer cancel()
	conn, err := j.held.Dial(ctx, node)
	if err != nil {
		return false
	}
	defer conn.Close()
	text, _ := io.ReadAll(conn) // a part is another text
	return string(text) == node
}

// TestTunnelIdentity: the certificate of a node opens its tunnel, and no other. It shows the renewed one the
// next time, and its revocation ends the tunnel.
func TestTunnelIdentity(t *testing.T) {
	j, dir := newJoined(t), t.TempDir()
	id, err := j.identify(dir, j.token())
	if err != nil {
		t.Fatal(err)
	}
	other := j.tunnel("n2", id)
	defer other()
	end := j.tunnel("n1", id)
	defer end()
	j.await("the server reaches it", func() bool { return j.reaches("n1") })
	if j.reaches("n2") {
		t.Error("the certificate of n1 opens a tunnel of n2")
	}
	first := id.cert.Load().Leaf
	if err := id.obtain(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if !j.reaches("n1") {
		t.Error("a renewal ends the tunnel")
	}
	end()
	again := j.tunnel("n1", id)
	defer again()
	j.await("the server reaches it again", func() bool { return j.reaches("n1") })
	if now := id.cert.Load().Leaf; now.SerialNumber.Cmp(first.SerialNumber) == 0 {
		t.Error("it has the same certificate")
	}
	conn, err := j.held.Dial(t.Context(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	began := time.Now()
	if err := j.RevokeToken(t.Context(), access.From(t.Context()), "node.n1"); err != nil {
		t.Fatal(err)
	}
	j.await("the tunnel is gone", func() bool { return j.held.Len() == 0 })
	if lasted := time.Since(began); lasted > 5*time.Second {
		t.Errorf("it lasts %s", lasted)
	}
	server, done, err := Join{Server: j.join.Server, CACert: j.join.CACert, identity: id}.nodes()
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if _, err := server.Node("n2").Layers(t.Context(), types.UnsentWorkdir); !types.Is(err, types.Denied) {
		t.Errorf("with a revoked certificate: %v", err)
	}
}
