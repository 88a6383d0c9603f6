package ops

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
)

// NewRegistry returns a registry with the metrics of the process and of its memory.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Etcd returns the metrics of an etcd within this process, which are in the registry that the whole
// process shares.
func Etcd() prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		all, err := prometheus.DefaultGatherer.Gather()
		var own []*dto.MetricFamily
		for _, f := range all {
			if strings.HasPrefix(f.GetName(), "etcd_") {
				own = append(own, f)
			}
		}
		return own, err
	})
}
