package rig

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/escher-sched/escher/types"
)

// etcd's own counters, by their names.
const (
	EtcdPuts    = "etcd_mvcc_put_total"
	EtcdDeletes = "etcd_mvcc_delete_total"
	// EtcdReads includes compares.
	EtcdReads = "etcd_mvcc_range_total"
	// EtcdEntries are the entries of its log: the transactions, and little else.
	EtcdEntries = "etcd_server_proposals_applied_total"
)

// etcdStats returns the counters of the etcd in this process.
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

// EtcdCounters returns etcd's counters, so that no watch of every change is needed.
func (c *Cluster) EtcdCounters(ctx context.Context) (map[string]float64, error) {
	found, err := c.processes[0].Stats(ctx) // the first started process
	if err == nil && found[EtcdPuts] == 0 {
		err = types.Errorf(types.Internal, "count the writes of etcd: it does not say %s", EtcdPuts)
	}
	return found, err
}
