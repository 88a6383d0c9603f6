package collect_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/types"
)

// grantOf returns the grant of the only reservation; nil if there is none.
func grantOf(v *cluster.View) *types.Grant {
	for _, r := range v.Reservations {
		return r.Grant.V
	}
	return nil
}

// TestServerIsKilled: while no server directs, a collection goes on as it was directed, and is
// granted. The next server finds it, and moves it off a node that was lost meanwhile.
func TestServerIsKilled(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(3, 4)})
			for i, runs := range []string{"60s", "80s", "400s"} {
				task := hollow.Task(4000, "run", runs)
				task.Task.Requests = task.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"node/" + hollow.Nodes(3, 4)[i].Name: 1}))
				g.Running(g.SubmitTasks(1, task))
			}
			began := time.Now()
			job := g.SubmitTasks(2, hollow.Task(4000, "run", "5s"), gang.Gang{})
			g.AwaitView(func(v *cluster.View) bool { x := grantOf(v); return x != nil && x.Phase == types.Collecting })
			on := grantOf(g.Snapshot()).Bundles
			g.StopKeeping()
			time.Sleep(time.Until(began.Add(65 * time.Second)))
			if held := grantOf(g.Snapshot()).On("n00"); on[0] != "n00" || on[1] != "n01" || len(held) == 0 {
				t.Fatalf("it collects on %v, and has %v without a server", on, held)
			}
			if lost {
				g.Lose("n01")
				time.Sleep(time.Minute)
				if on := grantOf(g.Snapshot()).Bundles; on[1] != "n01" {
					t.Errorf("without a server it moved to %v", on)
				}
				g.Keep()
				g.AwaitView(func(v *cluster.View) bool { return grantOf(v).Bundles[1] == "n02" })
			}
			g.Running(job)
			if waited := time.Since(began); !lost && waited > 81*time.Second {
				t.Errorf("it waited for %s", waited)
			}
			if err := g.Audit(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
