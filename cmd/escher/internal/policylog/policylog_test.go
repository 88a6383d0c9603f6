package policylog_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/policylog"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/esl/decisions"
	"github.com/escher-sched/escher/types"
)

// logged returns a log with one decision of each of two namespaces.
func logged() *decisions.Log {
	l := decisions.New(time.Unix(1, 0))
	for _, ns := range []string{"mine", "theirs"} {
		l.Add(cluster.ID{Namespace: ns, ID: "team"}, decisions.Entry{Policy: "gang", Outcome: decisions.Nothing, Reason: "of " + ns})
	}
	return l
}

// serve serves a log at a listener.
func serve(t *testing.T, l net.Listener, token string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(policylog.Pattern, policylog.Handler(logged(), token))
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: mux}}
	srv.Start()
	t.Cleanup(srv.Close)
}

// listen returns a listener on loopback.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// led returns a store whose leader of the policies is given.
func led(t *testing.T, leader *types.Leader) controlplane.Store {
	t.Helper()
	s := memstore.New()
	if leader == nil {
		return s
	}
	change := controlplane.NewChange(1)
	change.Put(controlplane.LeaderKey(policylog.Role), leader)
	if _, err := s.Commit(t.Context(), change.Txn()); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRead finds the server by its role, and reads the log of one namespace.
func TestRead(t *testing.T) {
	l := listen(t)
	address := policylog.Address(l.Addr(), "")
	serve(t, l, "secret")
	socket := filepath.Join(t.TempDir(), "s")
	unix, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, unix, "")
	for name, c := range map[string]struct {
		leader *types.Leader
		socket string
		class  types.Class
		says   string
	}{
		"a leader":                  {&types.Leader{Holder: "one", Address: address, Token: "secret"}, "", 0, ""},
		"a leader, of no directory": {&types.Leader{Holder: "one", Address: address, Token: "secret"}, "unix://" + socket + "x", 0, ""},
		"escher dev":                {nil, "unix://" + socket, 0, ""},
		"no server":                 {nil, "", types.Unavailable, "no server runs policies"},
		"dev has ended":             {nil, "unix://" + socket + "x", types.Unavailable, "look whether it runs"},
		"another token":             {&types.Leader{Holder: "one", Address: address, Token: "guess"}, "", types.Precondition, "of an earlier server"},
		"no token":                  {&types.Leader{Holder: "one", Address: address}, "", types.Precondition, "the token is missing"},
		"an older server":           {&types.Leader{Holder: "one"}, "", types.Precondition, "run a server of this version there"},
		"another machine":           {&types.Leader{Holder: "one", Address: "http://127.0.0.1:1#other"}, "", types.Precondition, "--ops"},
		"no address":                {&types.Leader{Holder: "one", Address: "ftp://x"}, "", types.Precondition, "is none"},
	} {
		t.Run(name, func(t *testing.T) {
			page, err := read(t.Context(), led(t, c.leader), c.socket, "mine", 0)
			if c.says != "" {
				if !types.Is(err, c.class) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || len(page.Entries) != 1 || page.Entries[0].Reason != "of mine" || page.Seq != 2 || !page.Since.Equal(time.Unix(1, 0)) {
				t.Errorf("%+v, %v", page, err)
			}
		})
	}
	dev := led(t, nil)
	if page, err := read(t.Context(), dev, "unix://"+socket, "mine", 1); err != nil || !page.Known || len(page.Entries) != 0 {
		t.Errorf("after the last change: %+v, %v", page, err)
	}
	for says, ns := range map[string]string{"namespace": "No/Name", "no number": "mine"} {
		after := int64(0)
		if ns == "mine" {
			after, says = -1, "after"
		}
		if _, err := read(t.Context(), dev, "unix://"+socket, ns, after); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", ns, err)
		}
	}
}

func read(ctx context.Context, store controlplane.Store, socket, ns string, after int64) (decisions.Page, error) {
	c, err := policylog.Find(ctx, store, socket)
	if err != nil {
		return decisions.Page{}, err
	}
	return c.Read(ctx, ns, "team", after)
}

// TestAddress gives loopback addresses the id of the machine, and others its host.
func TestAddress(t *testing.T) {
	for want, at := range map[string]net.Addr{
		"http://127.0.0.1:7#": &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7},
		"http://10.0.0.9:7":   &net.TCPAddr{IP: net.IPv4zero, Port: 7},
		"http://10.1.2.3:7":   &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 7},
		"unix:///run/x#":      &net.UnixAddr{Net: "unix", Name: "/run/x"},
	} {
		got := policylog.Address(at, "10.0.0.9")
		if local := strings.HasSuffix(want, "#"); !strings.HasPrefix(got, want) || local != strings.Contains(got, "#") {
			t.Errorf("%s is %s, want %s", at, got, want)
		}
	}
}
