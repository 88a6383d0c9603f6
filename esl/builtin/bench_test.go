package builtin

import (
	"fmt"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/viewtest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/types"
)

func oneCore() controlplane.Submission {
	return controlplane.Submission{Task: types.Task{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}}
}

// BenchmarkNext is one call for a job of 10,000 tasks on 1,000 nodes, one on each: of policies that
// are called after every change.
func BenchmarkNext(b *testing.B) {
	for _, waits := range []bool{true, false} {
		for name, p := range map[string]esl.Controller{
			"spread/node": place.Spread{}, "spread/rack": place.Spread{Over: esl.Rack}, "apart": place.Apart{PerNode: 10}, "apart/rack": place.Apart{In: esl.Rack, PerNode: 600}, "balance": place.Balance{},
			"elastic-balance": place.ElasticBalance{}, "pack": place.Pack{}, "elastic": room.Elastic{}, "objective": place.Objective{By: place.Leftover}, "colocate/rack": place.Colocate{In: esl.Rack},
		} {
			n := 1000
			if waits {
				n = 10_000
			}
			b.Run(fmt.Sprintf("%s/waits=%t", name, waits), func(b *testing.B) {
				s := viewtest.NewBench(b, 1000).Job("j", p, esl.Copies(n, oneCore()), 1000)
				b.ReportAllocs()
				for b.Loop() {
					p.Next(s)
				}
			})
		}
	}
}

// BenchmarkAfter is one call for a graph of 10,000 tasks, a tenth of which run: a chain, and layers
// of 100 in which each task comes after all of the previous layer.
func BenchmarkAfter(b *testing.B) {
	for _, each := range []int{1, 100} {
		p, tasks := admission.After{Tasks: make(map[string][]string)}, make([]controlplane.Submission, 10_000)
		for i := range tasks {
			tasks[i] = oneCore()
			tasks[i].Task.Name = fmt.Sprintf("t%d", i)
			for j := (i/each - 1) * each; j >= 0 && j < i/each*each; j++ {
				p.Tasks[tasks[i].Task.Name] = append(p.Tasks[tasks[i].Task.Name], fmt.Sprintf("t%d", j))
			}
		}
		b.Run(fmt.Sprintf("layers=%d", 10_000/each), func(b *testing.B) {
			s := viewtest.NewBench(b, 1000).Job("j", p, tasks, 1000)
			b.ReportAllocs()
			for b.Loop() {
				p.Next(s)
			}
		})
	}
}

// BenchmarkElasticAmongMany is one call for an elastic job among 100,000 waiting tasks of other
// jobs.
func BenchmarkElasticAmongMany(b *testing.B) {
	w := viewtest.NewBench(b, 1000)
	w.Job("others", viewtest.Still{}, esl.Copies(100_000, oneCore()), 0)
	s := w.Job("j", room.Elastic{}, esl.Copies(1000, oneCore()), 1000)
	b.ReportAllocs()
	for b.Loop() {
		room.Elastic{}.Next(s)
	}
}
