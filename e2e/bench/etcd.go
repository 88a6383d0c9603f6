package bench

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/escher-sched/escher/types"
)

// What etcd counts of itself, by the names that it gives them.
const (
	etcdPuts    = "etcd_mvcc_put_total"
	etcdDeletes = "etcd_mvcc_delete_total"
	// etcdReads are compares, too.
	etcdReads = "etcd_mvcc_range_total"
	// etcdEntries are those of its log: the transactions, and little else.
	etcdEntries = "etcd_server_proposals_applied_total"
)

// etcdStats returns what the etcd of this process has counted.
func etcdStats() map[string]float64 {
	out := make(map[string]float64)
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		return out
	}
	for _, f := range families {
		if m := f.GetMetric(); len(m) == 1 && strings.HasPrefix(f.GetName(), "etcd_") {
			out[f.GetName()] = m[0].GetCounter().GetValue() + m[0].GetGauge().GetValue()
		}
	}
	return out
}

// etcdCounted returns what etcd has counted: nobody has to watch every change for that.
func (c *cluster) etcdCounted(ctx context.Context) (map[string]float64, error) {
	found, err := c.processes[0].stats(ctx) // it was started first
	if err == nil && found[etcdPuts] == 0 {
		err = types.Errorf(types.Internal, "count the writes of etcd: it does not say %s", etcdPuts)
	}
	return found, err
}
