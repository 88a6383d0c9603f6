package scheduler

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// The benchmarks of the core alone: a store that commits at once, and a watch slightly behind it.
// They measure the CPU time of the core per task, by activity: next (deciding), done (answers) and
// echo (the watch's copy of them).
//
// go test -run '^$' -bench Core -benchtime 1x ./scheduler

// BenchmarkCoreBind: tasks of 240 shapes fill nodes of 24 kinds to 87 %.
func BenchmarkCoreBind(b *testing.B) {
	for _, nodes := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			eachLimit(b, func(b *testing.B, r *rig) {
				rng := rand.New(rand.NewPCG(1, 2))
				vectors := mix(rng, nodes, kinds(), 0.87)
				r.nodes(nodes, kinds())
				r.tasks("bench", vectors)
				m := r.start()
				r.job("bench")
				r.run(b)
				r.report(b, r.binds, m)
				r.bound(b, len(vectors), 0.98)
			})
		})
	}
}

// lightly makes n vectors of a little cpu and memory, each with one more resource.
func lightly(n int, name func(i int) string) []types.Requests {
	out := make([]types.Requests, n)
	for i := range out {
		x := map[string]types.Quantity{"cpu": types.Quantity(100 * (1 + i%16)), "memory": types.Quantity(1+i%15) << 27}
		if name != nil {
			x[name(i)] = 1000
		}
		out[i] = types.NewRequests(x)
	}
	return out
}

// BenchmarkCoreEphemeral: each task requests one of 10,000 ephemeral resources.
func BenchmarkCoreEphemeral(b *testing.B) {
	eachLimit(b, func(b *testing.B, r *rig) {
		r.nodes(10_000, kinds())
		var events []controlplane.Event
		for i := range 10_000 {
			name := nodeOf(i)
			events = append(events, r.event(controlplane.ResourceKey("bench", fmt.Sprintf("e%d", i), name), &types.Resource{
				Capacity: 100_000, NodeSession: r.keys[controlplane.AliveKey(name)].create,
			}))
		}
		r.tell(events...)
		r.tasks("bench", lightly(100_000, func(i int) string { return fmt.Sprintf("e%d", i%10_000) }))
		m := r.start()
		r.job("bench")
		r.run(b)
		r.report(b, r.binds, m)
		r.bound(b, 100_000, 1)
	})
}

// BenchmarkCoreQuota: all tasks draw on one pool.
func BenchmarkCoreQuota(b *testing.B) {
	eachLimit(b, func(b *testing.B, r *rig) {
		r.nodes(10_000, kinds())
		r.tell(r.event(controlplane.ResourceKey("bench", "quota", types.ClusterWide), &types.Resource{Capacity: 1 << 50}))
		r.tasks("bench", lightly(100_000, func(int) string { return "quota" }))
		m := r.start()
		r.job("bench")
		r.run(b)
		r.report(b, r.binds, m)
		r.bound(b, 100_000, 1)
	})
}

// BenchmarkCoreGangs: gangs of 8 bundles of one device on nodes of 8 devices, optionally each in
// one rack.
func BenchmarkCoreGangs(b *testing.B) {
	for _, racks := range []bool{false, true} {
		b.Run(map[bool]string{false: "anywhere", true: "rack"}[racks], func(b *testing.B) {
			eachLimit(b, func(b *testing.B, r *rig) {
				r.nodes(5000, []kind{{64, 512, 8}})
				const gangs = 4900
				vectors := make([]types.Requests, 0, 8*gangs)
				for i := range gangs {
					for range 8 {
						vectors = append(vectors, types.NewRequests(map[string]types.Quantity{fmt.Sprintf("gpu@g%05d", i): 1000, fmt.Sprintf("cpu@g%05d", i): 4000}))
					}
				}
				r.tasks("bench", vectors)
				m := r.start()
				for first := 0; first < gangs; first += 100 {
					var events []controlplane.Event
					for i := first; i < first+100; i++ {
						x := &types.Reservation{Submitted: r.now.UnixNano() + int64(i)}
						for range 8 {
							v := map[string]types.Quantity{"gpu": 1000, "cpu": 4000}
							if racks {
								v[fmt.Sprintf("rack/r%d", i%250)] = 1
							}
							x.Bundles = append(x.Bundles, types.Bundle{Requests: types.NewRequests(v)})
						}
						events = append(events, r.event(controlplane.ReservationKey("bench", fmt.Sprintf("g%05d", i)), x))
					}
					r.tell(events...)
				}
				r.job("bench")
				r.run(b)
				r.report(b, r.grants, m)
				r.bound(b, 8*gangs, 1)
			})
		})
	}
}

// million stands for a million waiting tasks: the cost per task does not depend on the number.
const million = 200_000

// BenchmarkCoreWaiting: others are bound while a million tasks wait, each for a missing resource of
// its own. Then 100,000 of them wake one by one.
func BenchmarkCoreWaiting(b *testing.B) {
	eachLimit(b, func(b *testing.B, r *rig) {
		r.nodes(10_000, kinds())
		runtime.GC()
		var empty, full runtime.MemStats
		runtime.ReadMemStats(&empty)
		r.tasks("waiting", lightly(million, func(i int) string { return fmt.Sprintf("w%d", i) }))
		runtime.GC()
		runtime.ReadMemStats(&full)
		b.ReportMetric(float64(full.HeapAlloc-empty.HeapAlloc)/million, "view-B/task")
		r.start()
		r.job("waiting")
		r.run(b)
		b.ReportMetric(float64((r.next+r.apply).Nanoseconds())/million, "queue-ns/task")
		runtime.GC()
		runtime.ReadMemStats(&empty)
		b.ReportMetric((float64(empty.HeapAlloc)-float64(full.HeapAlloc))/million, "queue-B/task")

		r.tasks("bench", mix(rand.New(rand.NewPCG(1, 2)), 10_000, kinds(), 0.2))
		r.start()
		r.job("bench")
		r.run(b)
		b.ReportMetric(float64((r.next+r.done+r.echo).Nanoseconds())/float64(r.binds), "others-ns/x")

		m := r.start()
		for i := range 100_000 {
			name := nodeOf(i % 10_000)
			r.tell(r.event(controlplane.ResourceKey("waiting", fmt.Sprintf("w%d", i), name), &types.Resource{
				Capacity: 1000, NodeSession: r.keys[controlplane.AliveKey(name)].create,
			}))
			if i%100 == 99 {
				r.run(b)
			}
		}
		r.run(b)
		r.report(b, r.binds, m)
		r.bound(b, 100_000, 1)
	})
}

// BenchmarkCoreTakeover: another scheduler vanishes, and half of the waiting and bound tasks change
// hands.
func BenchmarkCoreTakeover(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for b.Loop() {
		r := newRig(Config{Limits: benchLimits[1], Seed: 1, Name: "s1", Shared: true})
		r.tell(r.event(controlplane.SchedulerKey("s1"), &types.Leader{}), r.event(controlplane.SchedulerKey("s2"), &types.Leader{}))
		r.nodes(1000, kinds())
		const namespaces = 40
		for i := range namespaces {
			ns := fmt.Sprintf("ns%d", i)
			r.tasks(ns, lightly(million/namespaces, func(i int) string { return fmt.Sprintf("w%d", i/10) }))
			r.job(ns)
			r.run(b)
		}
		m := r.start()
		r.revision++
		timed(&r.apply, func() {
			r.core.Apply(controlplane.Batch{Revision: r.revision, Events: []controlplane.Event{
				{Delete: true, KV: controlplane.KV{Key: controlplane.SchedulerKey("s2"), ModRevision: r.revision}},
			}}, r.now)
		})
		r.virtual = r.apply
		r.report(b, million, m)
	}
}
