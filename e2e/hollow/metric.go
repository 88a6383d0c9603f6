package hollow

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/escher-sched/escher/types"
)

// Metric returns a counter or gauge of the scheduler, of a label if it has several. NotFound: there
// is none of that name.
func (c *Cluster) Metric(name, label string) (float64, error) {
	r := prometheus.NewRegistry()
	if err := r.Register(c.cfg.Scheduler.Metrics); err != nil {
		return 0, types.Errorf(types.Internal, "metric %s: %w", name, err)
	}
	families, err := r.Gather()
	if err != nil {
		return 0, types.Errorf(types.Internal, "metric %s: %w", name, err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (len(m.GetLabel()) == 0 || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue(), nil
			}
		}
	}
	return 0, types.Errorf(types.NotFound, "metric %s: there is none", name)
}
