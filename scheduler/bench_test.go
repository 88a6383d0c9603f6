package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// BenchmarkReleaseAmidShapes: the end of one task while 10,000 tasks wait that each request another
// amount of cpu, and none of which fits.
func BenchmarkReleaseAmidShapes(b *testing.B) {
	for _, amid := range []int{0, 10_000} {
		b.Run(fmt.Sprint(amid), func(b *testing.B) {
			x := &bench{t: &testing.T{}, store: newBench(&testing.T{}, Config{}).store, core: New(Config{}), now: time.Unix(1000, 0)}
			x.node("n1", 1000)
			x.task("hog", map[string]types.Quantity{"cpu": 900})
			for i := range amid {
				x.task(fmt.Sprintf("t%d", i), map[string]types.Quantity{"cpu": types.Quantity(200 + i)})
			}
			x.settle()
			i := 0
			for b.Loop() {
				i++
				id := fmt.Sprintf("small%d", i)
				x.task(id, map[string]types.Quantity{"cpu": 100})
				x.settle()
				if x.where(id) != "bound on n1" {
					b.Fatal(x.where(id))
				}
				x.exited(id)
				x.settle()
				x.del(controlplane.TaskKey("d", id), controlplane.StatusKey("d", id))
			}
		})
	}
}
