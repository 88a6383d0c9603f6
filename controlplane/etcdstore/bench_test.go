package etcdstore_test

import (
	"errors"
	"flag"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/cluster/clustertest"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
)

var benchTasks = flag.Int("tasks", 20_000, "how many bound tasks BenchmarkList reads, on a hundredth as many nodes")

// store returns a store on an etcd with keys, for a benchmark.
func store(b *testing.B, kvs []controlplane.KV) *etcdstore.Store {
	b.Helper()
	srv := etcdtest.Start(b, etcdtest.WithQuota(8<<30))
	s := etcdstore.New(srv.Client, etcdstore.ServerLimits())
	const each = 4000
	for i := 0; i < len(kvs); i += each {
		var txn controlplane.Txn
		for _, kv := range kvs[i:min(i+each, len(kvs))] {
			txn.Ops = append(txn.Ops, controlplane.Op{Key: kv.Key, Value: kv.Value})
		}
		if _, err := s.Commit(b.Context(), txn); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

// BenchmarkList measures reading a cluster, with etcd in the same process: alone, as a stream, in
// pages, and with the list-watch and view of a scheduler.
func BenchmarkList(b *testing.B) {
	kvs := clustertest.Bound(max(*benchTasks/100, 1), *benchTasks)
	s := store(b, kvs)
	opts := controlplane.ListOptions{Prefix: controlplane.Root}
	run := func(name string, read func() (keys int, err error)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n, err := read(); err != nil || n != len(kvs) {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(kvs)), "ns/key")
		})
	}
	counted := func(n *int) func([]controlplane.KV) error {
		return func(part []controlplane.KV) error { *n += len(part); return nil }
	}
	run("stream", func() (n int, err error) {
		_, err = s.Scan(b.Context(), opts, counted(&n))
		return n, err
	})
	run("pages", func() (n int, err error) {
		_, err = controlplane.ScanPages(b.Context(), s, opts, counted(&n))
		return n, err
	})
	run("view", func() (n int, err error) {
		v, enough := cluster.New(), errors.New("enough")
		err = controlplane.ListWatch(b.Context(), s, controlplane.ListWatchOptions{Prefix: controlplane.Root, Parts: true}, func(u controlplane.Update) error {
			for _, e := range u.Events {
				if _, _, err := v.Apply(e); err != nil {
					return err
				}
			}
			if n += len(u.Events); !u.More {
				return enough
			}
			return nil
		})
		if errors.Is(err, enough) {
			err = nil
		}
		return n, err
	})
}
