package parts

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/api/certs"
	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/api/contexts"
	"github.com/escher-sched/escher/cmd/escher/internal/ops"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/types"
)

// freePort returns a port of this machine that nothing listens at.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it only finds a port
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestGateway serves the gateway and the HTTP API at one port, and at the socket of root.
func TestGateway(t *testing.T) {
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
	socket, port := "unix://"+filepath.Join(t.TempDir(), "api.sock"), freePort(t)
	https, plain := "https://localhost:"+port, "http://127.0.0.1:"+freePort(t)
	err = StartREST(stack, RESTConfig{
		Addresses: []string{socket, https, plain}, Cert: filepath.Join(pki, "s.pem"), Key: filepath.Join(pki, "s.key"), Store: store, Log: zap.NewNop(),
		Etcd: &etcdstore.Config{Endpoints: srv.Client.Endpoints(), Limits: etcdstore.ServerLimits()},
	})
	if err != nil {
		t.Fatal(err)
	}
	root, err := client.New(client.Config{Server: socket})
	if err != nil {
		t.Fatal(err)
	}
	var made struct{ Token string }
	if err := root.Do(t.Context(), http.MethodPost, "/v1/tokens", map[string]any{"subject": "node:n1"}, &made); err != nil {
		t.Fatal(err)
	}
	cacert := etcdstore.Address{CACert: filepath.Join(pki, certs.CAFile)}
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
