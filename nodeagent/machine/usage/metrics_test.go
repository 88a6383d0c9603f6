package usage

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// shown returns the values of the metrics, by name and labels.
func shown(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(m)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]float64)
	for _, f := range families {
		for _, one := range f.GetMetric() {
			var labels []string
			for _, l := range one.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			out[fmt.Sprintf("%s{%s}", f.GetName(), strings.Join(labels, ","))] = one.GetCounter().GetValue() + one.GetGauge().GetValue()
		}
	}
	return out
}

func TestMetrics(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.run("a")
		pass(16 * time.Second)
		m := w.cfg.Metrics
		got := shown(t, m)
		for name, want := range map[string]float64{
			"escher_task_cpu_seconds_total{attempt=1,namespace=x,node=n,task=a}":   7.5,
			"escher_node_cpu_seconds_total{node=n}":                                15.6,
			"escher_node_io_bytes_total{node=n,op=write}":                          4000 * 512,
			"escher_node_pressure_seconds_total{kind=full,node=n,resource=io}":     0.9,
			"escher_node_pressure_seconds_total{kind=some,node=n,resource=memory}": 0,
			"escher_usage_failed_total{node=n}":                                    0,
		} {
			if value, ok := got[name]; !ok || value != want {
				t.Errorf("%s is %v (%v), want %v; there are %v", name, value, ok, want, got)
			}
		}
		for name := range got {
			if strings.HasPrefix(name, "escher_task_memory") || strings.HasPrefix(name, "escher_task_pressure") {
				t.Errorf("%s is not known, and shown", name)
			}
		}
		m.NoTasks = true
		for name := range shown(t, m) {
			if strings.Contains(name, "task") {
				t.Errorf("%s is shown, and was to be hidden", name)
			}
		}
		m.NoTasks = false
		w.set(func() { delete(w.running, "a") })
		for name := range shown(t, m) {
			if strings.HasPrefix(name, "escher_task_") {
				t.Errorf("%s is shown after its end", name)
			}
		}
	})
}

// TestMetricsOfDevices tests metrics with devices.
func TestMetricsOfDevices(t *testing.T) {
	metering(t, func(t *testing.T, _ *driver, m *meter) {
		synctest.Wait()
		metrics := NewMetrics()
		metrics.of(&Sampler{cfg: Config{Node: "n", Workloads: new(world).Workloads}, meter: m})
		got := shown(t, metrics)
		if got["escher_device_busy_ratio{device=gpu-1,node=n}"] != 0.37 || got["escher_device_memory_bytes{device=gpu-1,node=n}"] != 5<<30 {
			t.Errorf("%v", got)
		}
		if _, ok := got["escher_device_busy_ratio{device=gpu-0,node=n}"]; ok {
			t.Errorf("what gpu-0 does not tell is shown: %v", got)
		}
	})
}
