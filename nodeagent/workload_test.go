package nodeagent_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
)

// TestWorkloads tests the running attempts, with their devices and start times, also after a crash
// of the agent.
func TestWorkloads(t *testing.T) {
	withGPUs(t, does(simruntime.Behaviour{Run: time.Minute}), func(b *bench, _ *changing) {
		if all := b.agent.Workloads(); len(all) != 0 {
			t.Errorf("%+v before anything was bound", all)
		}
		id := b.bind("a", holding("g1", 500), holding("g2", 1000))
		synctest.Wait()
		w := b.agent.Workloads()[id]
		if diff := cmp.Diff([]string{"g1", "g2"}, w.Devices); diff != "" || w.Attempt.Task != "a" || !w.Started.Equal(time.Now()) {
			t.Errorf("%+v, want what was started now, with its devices", w)
		}
		b.crash()
		b.start()
		synctest.Wait()
		if again := b.agent.Workloads()[id]; !cmp.Equal(again, w) {
			t.Errorf("after a crash of the agent %+v, want %+v", again, w)
		}
		b.pass(2 * time.Minute)
		if all := b.agent.Workloads(); len(all) != 0 {
			t.Errorf("%+v after its end", all)
		}
	}, "g1", "g2")
}
