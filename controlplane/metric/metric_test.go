package metric_test

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/escher-sched/escher/controlplane/metric"
)

// TestSet: added metrics are collected under their full names.
func TestSet(t *testing.T) {
	s := metric.NewSet("oven")
	s.Counter("breads_total", "Breads.").Inc()
	s.Counters("burnt_total", "Burnt, by why.", "why").WithLabelValues("late").Inc()
	s.Gauge("heat", "Degrees.").Set(200)
	s.Gauges("shelf", "Breads on each shelf.", "shelf").WithLabelValues("top").Set(2)
	s.Histogram("bake_seconds", "Time.", 1, 2, 3).Observe(3)
	s.Histograms("rest_seconds", "Time, by dough.", 1, 2, 3, "dough").WithLabelValues("rye").Observe(5)
	r := prometheus.NewRegistry()
	r.MustRegister(s)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
		for _, m := range f.GetMetric() {
			if h := m.GetHistogram(); h != nil && (h.GetSampleCount() != 1 || len(h.GetBucket()) != 3 || h.GetBucket()[2].GetUpperBound() != 4) {
				t.Errorf("%s: %v", f.GetName(), h)
			}
		}
	}
	want := []string{"escher_oven_bake_seconds", "escher_oven_breads_total", "escher_oven_burnt_total", "escher_oven_heat", "escher_oven_rest_seconds", "escher_oven_shelf"}
	if !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	if text := metric.Desc("oven", "age_seconds", "Age.", "brand").String(); text != prometheus.NewDesc("escher_oven_age_seconds", "Age.", []string{"brand"}, nil).String() {
		t.Error(text)
	}
}
