package parts

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/escher-sched/escher/cmd/escher/internal/policylog"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/identity"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// said collects the messages for people, and waits for some.
type said chan string

func (s said) progress(format string, args ...any) {
	s <- types.Errorf(types.Internal, format, args...).Error()
}

// await returns when a message contains text.
func (s said) await(t *testing.T, text string) {
	t.Helper()
	for {
		select {
		case line := <-s:
			if strings.Contains(line, text) {
				return
			}
			t.Logf("said: %s", line)
		case <-time.After(2 * time.Minute):
			t.Fatalf("nothing with %q is said", text)
		}
	}
}

// TestServerWaitsForEtcd starts a server before its etcd, which takes small transactions.
func TestServerWaitsForEtcd(t *testing.T) {
	dir, err := os.MkdirTemp("", "parts") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ctx, cancel := context.WithCancel(t.Context())
	lines, ready, ended := make(said, 100), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- RunServer(ctx, ServerConfig{
			Etcd: etcdstore.Config{Endpoints: []string{"unix://" + filepath.Join(dir, "client")}},
			Name: "one", Ops: "127.0.0.1:0", Log: zaptest.NewLogger(t), Progress: lines.progress, Ready: func(string, string) { close(ready) },
		})
	}()
	lines.await(t, "start etcd there, or correct --endpoints")
	srv := etcdtest.Start(t, etcdtest.WithDir(dir), etcdtest.WithMaxTxnOps(128))
	lines.await(t, "--max-txn-ops=4096")
	<-ready
	store := etcdstore.New(srv.Client, etcdstore.StockLimits())
	if id, err := identity.ClusterID(t.Context(), store); err != nil || id == "" {
		t.Errorf("the cluster is %q, %v", id, err)
	}
	log, err := policylog.Find(t.Context(), store, "")
	for types.Is(err, types.Unavailable) { // it has no role yet
		log, err = policylog.Find(t.Context(), store, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	if page, err := log.Read(t.Context(), "default", "team", 0); err != nil || page.Known || page.Since.IsZero() {
		t.Errorf("the log of policies: %+v, %v", page, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// TestNameIsTaken lets an agent of the same name live, then die.
func TestNameIsTaken(t *testing.T) {
	srv := etcdtest.Start(t)
	store := etcdstore.New(srv.Client, etcdstore.ServerLimits())
	lease, err := store.GrantLease(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	change := controlplane.NewChange(controlplane.NewBatch())
	change.PutOn(controlplane.AliveKey("a"), &types.Alive{TTLSeconds: 1}, lease)
	if _, err := store.Commit(t.Context(), change.Txn()); err != nil {
		t.Fatal(err)
	}
	lines := make(said, 100)
	p := newProcess(t.Context(), zaptest.NewLogger(t), lines.progress)
	p.store = store
	if err := p.awaitName(t.Context(), "b", t.TempDir()); err != nil {
		t.Errorf("another name: %v", err)
	}
	if err := p.awaitName(t.Context(), "a", t.TempDir()); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "--node") {
		t.Errorf("a name that is taken: %v", err)
	}
	lines.await(t, "node a is alive: waiting up to 1s")
	ended := make(chan error, 1)
	go func() { ended <- p.awaitName(t.Context(), "a", t.TempDir()) }()
	lines.await(t, "node a is alive")
	if err := store.RevokeLease(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("a name that is free again: %v", err)
	}
}

func TestAddressIsThatTowardsEtcd(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for want, cfg := range map[string]AgentConfig{
		"http://127.0.0.1:" + port: {Etcd: etcdstore.Config{Endpoints: []string{"unix:///run/etcd", "https://127.0.0.1:2379"}}},
		"https://10.1.2.3:7":       {Advertise: "10.1.2.3:7", TLSCert: "cert.pem"},
	} {
		if got := cfg.address(l, apiListen{}); got != want {
			t.Errorf("address %s, want %s", got, want)
		}
	}
}

func TestAgentIsCheckedFirst(t *testing.T) {
	err := RunAgent(t.Context(), AgentConfig{Agent: nodeagent.Config{Node: "a", TTL: time.Second}, Log: zaptest.NewLogger(t)})
	if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "ttl") {
		t.Errorf("got %v, want what is wrong with its time to live", err)
	}
}
