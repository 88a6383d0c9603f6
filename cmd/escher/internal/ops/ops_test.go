package ops_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/escher-sched/escher/cmd/escher/internal/ops"
	"github.com/escher-sched/escher/types"
)

// get sends a request to an ops server at a socket.
func get(t *testing.T, address, path string) (code int, body string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(address, "unix://"))
		},
	}}
	res, err := client.Get("http://ops" + path)
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

// serve starts a server at a socket.
func serve(t *testing.T, health *ops.Health) (address string) {
	t.Helper()
	address = "unix://" + filepath.Join(t.TempDir(), "ops.sock")
	s, err := ops.New(ops.Config{Address: address, Metrics: ops.NewRegistry(), Health: health})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return address
}

func TestServerTells(t *testing.T) {
	health := new(ops.Health)
	address := serve(t, health)
	if code, body := get(t, address, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "starting") {
		t.Errorf("with no part: %d %q", code, body)
	}
	beat := health.Part("scheduler")
	if code, body := get(t, address, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "scheduler: it has not caught up") {
		t.Errorf("before the first beat: %d %q", code, body)
	}
	beat.Run(true)
	for _, path := range []string{"/readyz", "/healthz"} {
		if code, body := get(t, address, path); code != http.StatusOK || body != "ok\n" {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	state, text := error(nil), "one value cannot be read"
	health.Component("collector", func() error { return state })
	health.Warn("store", func() string { return text })
	if code, body := get(t, address, "/readyz"); code != http.StatusOK || body != "ok\nwarning: store: one value cannot be read\n" {
		t.Errorf("with a warning: %d %q", code, body)
	}
	state = types.Errorf(types.Unavailable, "it ended")
	if code, body := get(t, address, "/readyz"); code != http.StatusServiceUnavailable || body != "collector: it ended\nwarning: store: one value cannot be read\n" {
		t.Errorf("with a component that ended: %d %q", code, body)
	}
	state, text = nil, ""
	code, body := get(t, address, "/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil || code != http.StatusOK {
		t.Fatalf("%d, %v", code, err)
	}
	for _, name := range []string{"go_goroutines", "process_resident_memory_bytes"} {
		if families[name] == nil {
			t.Errorf("no %s", name)
		}
	}
	if code, _ := get(t, address, "/debug/pprof/"); code != http.StatusNotFound {
		t.Errorf("profiles without being asked for: %d", code)
	}
	if _, err := ops.New(ops.Config{Address: address}); !types.Is(err, types.Precondition) {
		t.Errorf("a second one at the same place: %v", err)
	}
}

func TestHealthChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		health := new(ops.Health)
		loop, standby := health.Part("loop"), health.Standby("standby")
		check := func(when, live, ready string) {
			t.Helper()
			for name, x := range map[string]struct {
				err  error
				says string
			}{"live": {health.Live(), live}, "ready": {health.Ready(), ready}} {
				if (x.says == "") != (x.err == nil) || x.err != nil && !strings.Contains(x.err.Error(), x.says) {
					t.Errorf("%s, %s: %v, want %q", when, name, x.err, x.says)
				}
			}
		}
		check("at the start", "", "loop: it has not caught up")
		for _, b := range []*ops.Beat{loop, standby} {
			b.Run(true)
			b.Run(false)
		}
		check("both run", "", "")
		time.Sleep(31 * time.Second)
		loop.Run(false)
		check("it hears nothing", "", "loop: it has heard nothing of the store for 31s")
		time.Sleep(31 * time.Second)
		loop.Run(true)
		loop.Run(false)
		check("a standby is stuck", "standby: its loop has not run for 1m2s", "")
		standby.Stop()
		check("it is none any more", "", "")
	})
}

func TestListenIsTold(t *testing.T) {
	for address, says := range map[string]string{
		"here": "no address", "unix:///no/such/directory/s": "no such file", "198.51.100.1:1": "choose another port",
	} {
		if _, err := ops.Listen("ops", address); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", address, err, says)
		}
	}
}

// TestServerRunsAgain runs a server twice at the port that was chosen for it.
func TestServerRunsAgain(t *testing.T) {
	s, err := ops.New(ops.Config{Address: "127.0.0.1:0", Metrics: ops.NewRegistry(), Health: new(ops.Health)})
	if err != nil {
		t.Fatal(err)
	}
	address := s.Address()
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		for {
			res, err := http.Get("http://" + address + "/healthz")
			if err != nil {
				continue // It does not listen yet.
			}
			if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("status %d, %v", res.StatusCode, err)
			}
			break
		}
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}
