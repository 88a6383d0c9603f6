package parts

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/cmd/escher/internal/ops"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// TestStartREST serves the API at a socket that only its user can use, and at nothing else.
func TestStartREST(t *testing.T) {
	store := memstore.New()
	stack := NewStack(t.Context(), zap.NewNop(), new(ops.Health))
	for _, address := range []string{"", "127.0.0.1:0", ":7422", "unix://", "/run/api.sock"} {
		if err := StartREST(stack, address, store, nil, "1", zap.NewNop()); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "unix:///path") {
			t.Errorf("%q: %v", address, err)
		}
	}
	path := filepath.Join(t.TempDir(), "api.sock")
	if err := StartREST(stack, "unix://"+path, store, nil, "1", zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	res, err := client.Get("http://escher/v1/nodes")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(text), `"items":[]`) {
		t.Errorf("%d %s %v", res.StatusCode, text, err)
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
