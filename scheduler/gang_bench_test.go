package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// BenchmarkGang decides about a gang on 32 nodes of 8 processors, reserved and drawn on.
func BenchmarkGang(b *testing.B) {
	for _, members := range []int{32, 256} {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			b.ReportAllocs()
			var apply, next time.Duration
			for range b.N {
				b.StopTimer()
				r := newRig(Config{Limits: controlplane.Limits{Ops: 4096, Bytes: 3 << 19}, Seed: 1})
				for i := range 32 {
					r.tell(r.event(controlplane.NodeKey(nodeOf(i)), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 8000})}),
						r.event(controlplane.AliveKey(nodeOf(i)), &types.Alive{TTLSeconds: 15}))
				}
				events := r.gang(members)
				r.apply = 0
				b.StartTimer()
				r.tell(events...)
				var drafts []*Transaction
				timed(&next, func() { drafts = r.core.Next(r.now) })
				apply += r.apply
				if len(drafts) != 1 || len(drafts[0].Binds) != members {
					b.Fatalf("%d drafts, of %d tasks", len(drafts), len(drafts[0].Binds))
				}
			}
			b.ReportMetric(float64(apply.Microseconds())/float64(b.N), "apply-cpu-µs/op")
			b.ReportMetric(float64(next.Microseconds())/float64(b.N), "next-cpu-µs/op")
		})
	}
}

// gang is the keys of a gang that takes all processors.
func (r *rig) gang(members int) []controlplane.Event {
	const job = "gang-abcdefgh"
	each := types.Quantity(32 * 8000 / members)
	res := &types.Reservation{Submitted: 1}
	for range members {
		res.Bundles = append(res.Bundles, types.Bundle{Requests: types.NewRequests(map[string]types.Quantity{"cpu": each})})
	}
	events := []controlplane.Event{r.event(controlplane.ReservationKey("d", job), res)}
	for i := range members {
		events = append(events, r.event(controlplane.TaskKey("d", fmt.Sprintf("%s-%03d", job, i)), &types.Task{
			Job: job, Spec: "s", Submitted: 1, Requests: types.NewRequests(map[string]types.Quantity{"cpu@" + job: each}),
		}))
	}
	return append(events, r.event(controlplane.JobKey("d", job), &types.Job{Name: "gang", Tasks: members}))
}
