package keep

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/e2e/viewtest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// BenchmarkKeep is a change of the status of a task, with its consequences: ten thousand tasks in
// more and more jobs, each with a policy.
func BenchmarkKeep(b *testing.B) {
	const tasks = 10_000
	for _, jobs := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			k := newLoop(memstore.New(), Options{Kinds: esl.Kinds{}.With(func() esl.Policy { return viewtest.Still{} })})
			revision, batch := int64(0), uint64(0)
			put := func(key string, m types.Message) {
				revision++
				batch++
				e := controlplane.Event{KV: controlplane.KV{Key: key, Value: types.Encode(batch, m), CreateRevision: revision, ModRevision: revision}}
				k.apply(b.Context(), controlplane.Update{Revision: revision, Events: []controlplane.Event{e}})
			}
			for i := range jobs {
				id := fmt.Sprintf("job-%d", i)
				put(controlplane.PoliciesKey("d", id), &types.Policies{Job: id, Policies: []types.Policy{{Kind: "still"}}})
			}
			for i := range tasks {
				put(controlplane.TaskKey("d", fmt.Sprintf("t-%d", i)), &types.Task{Job: fmt.Sprintf("job-%d", i%jobs)})
			}
			k.look(context.Background(), time.Now())
			i := 0
			for b.Loop() {
				i++
				put(controlplane.StatusKey("d", fmt.Sprintf("t-%d", i%tasks)), &types.Status{Phase: types.Running, Attempt: i})
				if _, ok := k.next(); ok {
					k.look(context.Background(), time.Now())
				}
			}
		})
	}
}
