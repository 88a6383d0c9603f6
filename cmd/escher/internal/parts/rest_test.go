package parts

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/api/certs"
	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/cmd/escher/internal/ops"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// TestStartREST serves the API at a socket, for its user, and by https, for bearers of tokens.
func TestStartREST(t *testing.T) {
	store, pki := memstore.New(), t.TempDir()
	authority, err := certs.Open(pki, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := authority.Server(pki, "s.pem", "s.key", []string{"localhost"}, time.Now(), time.Hour); err != nil {
		t.Fatal(err)
	}
	cert, key := filepath.Join(pki, "s.pem"), filepath.Join(pki, "s.key")
	stack := NewStack(t.Context(), zap.NewNop(), new(ops.Health))
	for address, says := range map[string]string{
		"": "unix:///path", "127.0.0.1:0": "unix:///path", "unix://": "unix:///path", "/run/api.sock": "unix:///path", "ftp://x:1": "unix:///path",
		"http://0.0.0.0:0": "write https://0.0.0.0:0", "http://example.com:80": "write https://", "https://127.0.0.1:0": "escher admin certificate",
	} {
		if err := StartREST(stack, RESTConfig{Addresses: []string{address}, Store: store, Log: zap.NewNop()}); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", address, err)
		}
	}
	if err := StartREST(stack, RESTConfig{Addresses: []string{"https://127.0.0.1:0"}, Cert: cert, Key: pki, Store: store, Log: zap.NewNop()}); !types.Is(err, types.Invalid) {
		t.Errorf("a key that is none: %v", err)
	}
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := strings.Replace(port.Addr().String(), "127.0.0.1", "localhost", 1)
	port.Close()
	path := filepath.Join(t.TempDir(), "api.sock")
	if err := StartREST(stack, RESTConfig{Addresses: []string{"unix://" + path, "https://" + address}, Cert: cert, Key: key, Store: store, Version: "1", Log: zap.NewNop()}); err != nil {
		t.Fatal(err)
	}
	socket, err := client.New(client.Config{Server: "unix://" + path})
	if err != nil {
		t.Fatal(err)
	}
	var nodes struct{ Items []any }
	if err := socket.Get(t.Context(), "/v1/nodes", nil, &nodes); err != nil {
		t.Error(err)
	}
	var made struct{ Token string }
	if err := socket.Do(t.Context(), http.MethodPost, "/v1/tokens", map[string]any{"subject": "user:alice"}, &made); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg  client.Config
		want types.Class
	}{
		"a token":              {client.Config{Server: "https://" + address, CACert: filepath.Join(pki, certs.CAFile), Token: made.Token}, types.Denied}, // it has no right yet
		"no token":             {client.Config{Server: "https://" + address, CACert: filepath.Join(pki, certs.CAFile)}, types.Denied},
		"an unknown authority": {client.Config{Server: "https://" + address, Token: made.Token}, types.Unavailable},
		"no encryption":        {client.Config{Server: "http://" + address, Token: made.Token}, types.Internal},
	} {
		api, err := client.New(c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := api.Get(t.Context(), "/v1/namespaces/lab/tasks", nil, nil); !types.Is(err, c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		api.Close()
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", st, err)
	}
	if err := stack.Unwind(); err != nil {
		t.Error(err)
	}
}

// TestMayUse lets root and the user of the process use a socket, and no other user.
func TestMayUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	me := os.Geteuid()
	if !mayUse(peer, me) || mayUse(peer, me+1) != (me == 0) {
		t.Errorf("user %d: %t, another one: %t", me, mayUse(peer, me), mayUse(peer, me+1))
	}
}
