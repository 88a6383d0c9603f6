package controlplane_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/types"
)

// BenchmarkSetResource sets resources in a real etcd without fsync, and puts values of the same
// size without compares.
func BenchmarkSetResource(b *testing.B) {
	store := etcdstore.New(etcdtest.Start(b).Client, etcdstore.ServerLimits())
	put := func(key string, m types.Message) {
		change := controlplane.NewChange(controlplane.NewBatch())
		change.Put(key, m)
		if _, err := controlplane.Commit(b.Context(), store, change.Txn()); err != nil {
			b.Fatal(err)
		}
	}
	nodes := make([]string, 50)
	for i := range nodes {
		nodes[i] = fmt.Sprintf("node-%05d", i)
		put(controlplane.NodeKey(nodes[i]), &types.Node{})
		put(controlplane.AliveKey(nodes[i]), &types.Alive{})
	}
	c, err := controlplane.New(store, "team")
	if err != nil {
		b.Fatal(err)
	}
	set := func(name string, capacity types.Quantity, on ...string) {
		if _, err := c.SetResource(b.Context(), name, capacity, controlplane.OnNode(on...), controlplane.SetOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	for _, n := range nodes {
		set("first", 1, n)
	}
	b.Run("put", func(b *testing.B) {
		defer reportCPU(b)()
		for i := range b.N {
			put(fmt.Sprintf("/escher/resources/team/put-%d/node-00007", i), &types.Resource{Capacity: 1000, NodeSession: 77})
		}
	})
	b.Run("new", func(b *testing.B) {
		defer reportCPU(b)()
		for i := range b.N {
			set(fmt.Sprintf("new-%d-%d", b.N, i), 1000, nodes[i%len(nodes)])
		}
	})
	b.Run("again", func(b *testing.B) {
		set("again", 1, nodes[0])
		defer reportCPU(b)()
		for i := range b.N {
			set("again", types.Quantity(2+i), nodes[0])
		}
	})
	b.Run("1000 in one call", func(b *testing.B) {
		for n := range b.N {
			tx := c.Begin()
			for i := range 20 {
				tx.SetResource(fmt.Sprintf("many-%d-%d-%d", b.N, n, i), 1000, controlplane.OnNode(nodes...), controlplane.SetOptions{})
			}
			if _, err := tx.Commit(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "us/resource")
	})
}

// reportCPU makes a benchmark report the CPU time of the process, etcd's included. Other load on
// the machine disturbs it less than wall time.
func reportCPU(b *testing.B) (end func()) {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	began := used()
	return func() { b.ReportMetric(float64((used()-began).Microseconds())/float64(b.N), "cpu-us/op") }
}

// BenchmarkLaunch launches ten thousand tasks in one call, in memory.
func BenchmarkLaunch(b *testing.B) {
	many := several(10_000)
	b.ReportAllocs()
	for range b.N {
		c, err := controlplane.New(yes{}, "team")
		if err != nil {
			b.Fatal(err)
		}
		for i := range many {
			many[i].ID = ""
		}
		if _, err := c.Launch(b.Context(), many...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(many)), "ns/task")
}

// yes is a store that commits every transaction.
type yes struct{ controlplane.Store }

func (yes) Limits() controlplane.Limits { return etcdstore.ServerLimits() }

func (yes) Commit(context.Context, controlplane.Txn) (controlplane.Result, error) {
	return controlplane.Result{Committed: true, Revision: 7}, nil
}
