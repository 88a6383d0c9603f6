package ops_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/escher-sched/escher/cmd/escher/internal/ops"
	"github.com/escher-sched/escher/types"
)

// TestOutline expects an outline to report a problem without its text, and to leave out metrics.
func TestOutline(t *testing.T) {
	registry, health := prometheus.NewRegistry(), new(ops.Health)
	registry.MustRegister(
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "escher_task_cpu", ConstLabels: prometheus.Labels{"task": "secret"}}),
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "escher_node_cpu"}),
	)
	health.Check("scheduler of secret", func() error { return types.Errorf(types.Unavailable, "secret is stuck") })
	health.Warn("policy", func() string { return "secret is odd" })
	full, outline := ops.Handler(registry, health), ops.Outline(registry, health, "escher_task_")
	for path, c := range map[string]struct {
		code int
		says string
	}{
		"/metrics": {200, "escher_node_cpu"}, "/readyz": {503, "token"}, "/healthz": {200, "ok"},
	} {
		some, all := httptest.NewRecorder(), httptest.NewRecorder()
		outline.ServeHTTP(some, httptest.NewRequest("GET", path, nil))
		full.ServeHTTP(all, httptest.NewRequest("GET", path, nil))
		if body := some.Body.String(); some.Code != c.code || some.Code != all.Code || !strings.Contains(body, c.says) || strings.Contains(body, "secret") {
			t.Errorf("%s answers %d: %s", path, some.Code, body)
		}
		if path != "/healthz" && !strings.Contains(all.Body.String(), "secret") {
			t.Errorf("all of %s is %s", path, all.Body)
		}
	}
}

// TestProfilesStayHere serves no profiles at an address that others reach.
func TestProfilesStayHere(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "10.1.2.3:0", "[::]:0"} {
		if _, err := ops.New(ops.Config{Address: address, Metrics: ops.NewRegistry(), Health: new(ops.Health), Pprof: true}); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "pprof") {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:0", "[::1]:0", "unix:///x"} {
		if !ops.IsLocal(address) {
			t.Errorf("%s is reached from here alone", address)
		}
	}
}
