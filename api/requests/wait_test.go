package requests_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestWaitForMany waits for more tasks than the head of one request can name.
func TestWaitForMany(t *testing.T) {
	b := newBench(t)
	ids := make([]string, 1000)
	for i := range ids {
		ids[i] = fmt.Sprintf("a-name-of-some-length-%030d", len(ids)-i)
		b.put(controlplane.TaskKey("d", ids[i]), &types.Task{Name: "x"})
		b.put(controlplane.StatusKey("d", ids[i]), &types.Status{Phase: types.Succeeded, Attempt: 1})
	}
	done, err := b.client.Wait(t.Context(), "ended", 0, ids...)
	if err != nil || !done.Complete || len(done.Tasks) != len(ids) || done.Tasks[0].ID != ids[len(ids)-1] {
		t.Fatalf("%v, %v, %d tasks", err, done.Complete, len(done.Tasks))
	}
	b.put(controlplane.StatusKey("d", ids[500]), &types.Status{Phase: types.Running, Attempt: 1})
	done, err = b.client.Wait(t.Context(), "ended", 10*time.Millisecond, ids...)
	if err != nil || done.Complete {
		t.Errorf("%v, %v", err, done.Complete)
	}
}
