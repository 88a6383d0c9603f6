//go:build linux

package dev

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/zap/zaptest"

	"github.com/escher-sched/escher/controlplane/sockets"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// ask sends a request to a socket.
func ask(t *testing.T, socket, path string) (code int, body string) {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(socket, "unix://"))
		},
	}}
	res, err := client.Get("http://dev" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// TestDevIsOperated scrapes a cluster: all its components are shown, and healthy.
func TestDevIsOperated(t *testing.T) {
	dir, err := os.MkdirTemp("", "dev") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan Info, 1), make(chan error, 1)
	cfg := Config{
		Dir: Dir(dir), Nodes: 2, Log: zaptest.NewLogger(t), Progress: t.Logf, Pprof: true,
		Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 1000, "memory": 1 << 30}),
		Runtimes: func(string) (nodeagent.Runtime, error) { return simruntime.New(simruntime.Config{}), nil },
		Ready:    func(i Info) { ready <- i },
	}
	go func() { ended <- Run(ctx, cfg) }()
	var info Info
	select {
	case info = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	ops := info.Ops[0]
	// It is ready as soon as the agents have read their tasks.
	begin := time.Now()
	for code, body := ask(t, ops, "/readyz"); code != http.StatusOK; code, body = ask(t, ops, "/readyz") {
		if time.Since(begin) > 2*time.Minute {
			t.Fatalf("it is not ready: %s", body)
		}
	}
	for _, path := range []string{"/healthz", "/debug/pprof/goroutine"} {
		if code, body := ask(t, ops, path); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	_, body := ask(t, ops, "/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	shown, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"etcd_server_has_leader", "escher_scheduler_binds_total", "escher_agent_session_age_seconds",
		"escher_collector_leading", "escher_store_requests_total", "go_goroutines",
	} {
		if shown[name] == nil {
			t.Errorf("no %s", name)
		}
	}
	// The socket of a node's API shows the same; all else there needs a token.
	api := "unix://" + sockets.Dir(cfg.Dir.agent("node-2")) + "/" + apiSocket
	if code, body := ask(t, api, "/readyz"); code != http.StatusOK {
		t.Errorf("at the node's API: %d %s", code, body)
	}
	if code, _ := ask(t, api, "/v1/images"); code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", code)
	}
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
