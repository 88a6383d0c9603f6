package nodeapi_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

// TestDial reads the token from its own key or, for an older agent, from the session's.
func TestDial(t *testing.T) {
	for name, c := range map[string]struct {
		alive, token string
		want         types.Class
	}{
		"own key":            {"", token, 0},
		"older version":      {token, "", 0},
		"both, as resumed":   {"of the past", token, 0},
		"not the one it has": {token, "of the past", types.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			w, store := newWorld(t), memstore.New()
			change := controlplane.NewChange(1)
			change.Put(controlplane.NodeKey("n"), &types.Node{Address: w.url})
			change.Put(controlplane.AliveKey("n"), &types.Alive{TTLSeconds: 15, Token: c.alive})
			if c.token != "" {
				change.Put(controlplane.TokenKey("n"), &types.Token{Token: c.token})
			}
			if _, err := store.Commit(t.Context(), change.Txn()); err != nil {
				t.Fatal(err)
			}
			client, err := nodeapi.Dialer{Store: store}.Dial(t.Context(), "n")
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_, err = client.Usage(t.Context(), time.Time{})
			if c.want == 0 && err != nil || c.want != 0 && !types.Is(err, c.want) {
				t.Error(err)
			}
		})
	}
}

// TestLoopbackOfAnother sends no request to loopback unless it is on the node's machine: another
// server there would get the token.
func TestLoopbackOfAnother(t *testing.T) {
	w := newWorld(t)
	if _, err := nodeapi.New("n", w.url+"#another-boot", token, nil); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "tls-cert") {
		t.Error(err)
	}
	c, err := nodeapi.New("n", w.url+"#"+watchdog.BootID(), token, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Usage(t.Context(), time.Time{}); err != nil {
		t.Error(err)
	}
}

// TestFullWithToken shows more of an open page to clients with the token.
func TestFullWithToken(t *testing.T) {
	w := newWorld(t)
	say := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
	}
	srv := httptest.NewServer(nodeapi.Handler(nodeapi.Config{Agent: w.agent, Runtime: w.runtime, Open: say("outline"), Full: say("all")}))
	defer srv.Close()
	for given, want := range map[string]string{"": "outline", "Bearer wrong": "outline", "Bearer ": "outline", "Bearer " + token: "all"} {
		for _, path := range []string{"/metrics", "/readyz", "/healthz"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if given != "" {
				req.Header.Set("Authorization", given)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(res.Body)
			if err := res.Body.Close(); err != nil {
				t.Error(err)
			}
			if err != nil || string(text) != want {
				t.Errorf("%s with %q: %q, %v, want %q", path, given, text, err, want)
			}
		}
	}
}

// TestNoRedirect follows no redirect of a node: a server would send requests to any address.
func TestNoRedirect(t *testing.T) {
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer other.Close()
	node := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer node.Close()
	client, err := nodeapi.New("n", node.URL, token, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Usage(t.Context(), time.Time{}); err == nil || asked != 0 {
		t.Errorf("it sends %d requests elsewhere, %v", asked, err)
	}
}

// TestTrusting shows nodes no certificate for etcd.
func TestTrusting(t *testing.T) {
	if nodeapi.Trusting(nil) != nil {
		t.Error("it has a configuration without etcd's")
	}
	etcd := &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool(), ServerName: "etcd", Certificates: make([]tls.Certificate, 1),
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return nil, nil },
	}
	conf := nodeapi.Trusting(etcd)
	if conf.ServerName != "" || conf.Certificates != nil || conf.GetClientCertificate != nil || conf.RootCAs != etcd.RootCAs || conf.MinVersion != tls.VersionTLS13 {
		t.Errorf("%+v", conf)
	}
	if len(etcd.Certificates) != 1 || etcd.GetClientCertificate == nil || etcd.ServerName != "etcd" {
		t.Error("it changes the configuration for etcd")
	}
}

// TestDialTunnel reaches a node that opens no port by what connects to its tunnel, and says what to do without
// that.
func TestDialTunnel(t *testing.T) {
	w, store := newWorld(t), memstore.New()
	change := controlplane.NewChange(1)
	change.Put(controlplane.NodeKey("n"), &types.Node{Address: types.TunnelAddress})
	change.Put(controlplane.AliveKey("n"), &types.Alive{TTLSeconds: 15})
	change.Put(controlplane.TokenKey("n"), &types.Token{Token: token})
	if _, err := store.Commit(t.Context(), change.Txn()); err != nil {
		t.Fatal(err)
	}
	if _, err := (nodeapi.Dialer{Store: store}).Dial(t.Context(), "n"); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "opens no port, and only servers reach it: ask a server") {
		t.Errorf("without a way: %v", err)
	}
	_, address, _ := strings.Cut(w.url, "://")
	var dialer net.Dialer
	dials := nodeapi.Dialer{Store: store, Tunnel: func(ctx context.Context, node string) (net.Conn, error) {
		if node != "n" {
			t.Errorf("it connects to %s", node)
		}
		return dialer.DialContext(ctx, "tcp", address)
	}}
	client, err := dials.Dial(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Usage(t.Context(), time.Time{}); err != nil {
		t.Error(err)
	}
	dials.Tunnel = func(context.Context, string) (net.Conn, error) {
		return nil, types.Errorf(types.Unavailable, "no server holds a tunnel of node n")
	}
	if client, err = dials.Dial(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Usage(t.Context(), time.Time{}); !types.Is(err, types.Unavailable) || err.Error() != "ask node n: no server holds a tunnel of node n" {
		t.Errorf("without a tunnel: %v", err)
	}
}
