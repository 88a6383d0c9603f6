package gang_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// TestGangWithoutRoomDoesNotRunInPart: a gang with a member that must run again but does not fit
// waits as a whole, and holds nothing. When it fits, all run again, bound at one revision.
func TestGangWithoutRoomDoesNotRunInPart(t *testing.T) {
	for name, c := range map[string]struct {
		gang gang.Gang
		harm func(g esltest.Gangs, node string)
	}{
		"restart, a node is lost":    {gang.Gang{Loss: esl.Restart}, esltest.Gangs.Lose},
		"restart, a node is drained": {gang.Gang{Loss: esl.Restart}, esltest.Gangs.Drain},
		"fail, a node is drained":    {gang.Gang{}, esltest.Gangs.Drain},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(3, 1)})
				job := g.SubmitTasks(3, hollow.Task(1000), c.gang)
				nodes := g.Running(job)
				most := g.Partial(job, func() {
					c.harm(g, nodes[0])
					time.Sleep(20 * time.Second)
				})
				if most > time.Second {
					t.Errorf("a part of it ran for %s", most)
				}
				if n := len(hollow.Running(g.Snapshot(), "d")); n != 0 {
					t.Errorf("%d of 3 run", n)
				}
				for _, id := range job.Tasks {
					if got := g.Why(id); !strings.HasPrefix(got, "gang train: were nothing else there, 2 of 3 members would fit: it waits for nodes") {
						t.Errorf("why: %q", got)
					}
				}
				// Others use what it does not.
				g.Running(g.SubmitTasks(1, hollow.Task(1000, "run", "1s")))
				g.Add(hollow.Node{Name: "late", Capacity: map[string]types.Quantity{"cpu": 1000}})
				g.Running(job)
				if at := g.Attempts(job); at[2] != 3 {
					t.Errorf("they run at attempts %v", at)
				}
				v := g.Snapshot()
				r := v.Reservations[cluster.ID{Namespace: "d", ID: job.Job + ".gang"}]
				for _, id := range job.Tasks {
					if b := v.Task(cluster.ID{Namespace: "d", ID: id}).Bindings[0]; b.Info.Create != r.Grant.Create {
						t.Errorf("%s is bound at %d, and all were granted at %d", id, b.Info.Create, r.Grant.Create)
					}
				}
				if err := g.Audit(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestGangWaitsWithTheOneThatFailed delays a member longer after each failure, and the others too.
func TestGangWaitsWithTheOneThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(3, 1)})
		job := g.SubmitTasks(3, hollow.Task(1000), gang.Gang{Loss: esl.Restart, Restarts: 10})
		g.Running(job)
		most := g.Partial(job, func() {
			for range 5 {
				g.Running(job)
				g.FailTask(job.Tasks[1])
				time.Sleep(500 * time.Millisecond)
			}
			time.Sleep(5 * time.Second)
			for _, id := range job.Tasks {
				if got := g.Why(id); !strings.Contains(got, "all run again when member "+job.Tasks[1]+" may, in 1") {
					t.Errorf("why: %q", got)
				}
			}
			g.Running(job)
		})
		if most > time.Second {
			t.Errorf("a part of it ran for %s", most)
		}
	})
}

// TestGangBeginsAgainWhenAllHaveStopped waits for slow members to stop before the next attempt.
func TestGangBeginsAgainWhenAllHaveStopped(t *testing.T) {
	for name, harm := range map[string]func(g esltest.Gangs, job controlplane.Launched, nodes []string){
		"a member fails": func(g esltest.Gangs, job controlplane.Launched, _ []string) { g.FailTask(job.Tasks[0]) },
		"a node is lost": func(g esltest.Gangs, _ controlplane.Launched, nodes []string) { g.Lose(nodes[0]) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(4, 1)})
				job := g.SubmitTasks(3, hollow.Task(1000, "stop", "9s"), gang.Gang{Loss: esl.Restart}, place.Apart{})
				nodes := g.Running(job)
				var l longest
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = g.Await(ctx, func(v *cluster.View) bool { l.look(v, job); return false })
				}()
				harm(g, job, nodes)
				time.Sleep(4 * time.Second)
				if got := g.Why(job.Tasks[0]); !strings.Contains(got, "all run again when none of them has a node any more; 2 have") {
					t.Errorf("why: %q", got)
				}
				time.Sleep(time.Minute)
				cancel()
				<-done
				if l.most > 0 {
					t.Errorf("members of different attempts ran for %s", l.most)
				}
				if at := g.Attempts(job); at[2] != 3 {
					t.Errorf("they run at attempts %v", at)
				}
			})
		})
	}
}

// TestGangGoesToAnotherRackWhenOneIsLost moves a gang when its rack lacks a node.
func TestGangGoesToAnotherRackWhenOneIsLost(t *testing.T) {
	for name, harm := range map[string]func(g esltest.Gangs, node string){"lost": esltest.Gangs.Lose, "drained": esltest.Gangs.Drain} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Racks(hollow.Nodes(4, 1), 2)})
				job := g.SubmitTasks(2, hollow.Task(1000), gang.Gang{Loss: esl.Restart, In: esl.Rack})
				was := esltest.Count(g.Running(job))
				for node := range was {
					harm(g, node)
					break
				}
				time.Sleep(2 * time.Minute)
				for node := range esltest.Count(g.Running(job)) {
					if was[node] > 0 {
						t.Errorf("it is on %s, which is of the rack that lacks a node", node)
					}
				}
			})
		})
	}
}

// TestGangRestartsOnAStockStore keeps evictions with their release within a stock etcd's limits.
func TestGangRestartsOnAStockStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := controlplane.Limits{Ops: 128, Bytes: 1536 << 10}
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(20, 5), NoAudit: true, Store: memstore.New(memstore.WithLimits(limits))})
		job := g.SubmitTasks(100, hollow.Task(1000), gang.Gang{Loss: esl.Restart})
		g.Running(job)
		g.FailTask(job.Tasks[3])
		time.Sleep(time.Minute)
		if at := g.Attempts(job); at[2] != 100 {
			t.Errorf("they run at attempts %v", at)
		}
	})
}

// TestGangSaysHowAMemberFailed gives a reason, even if the process printed nothing.
func TestGangSaysHowAMemberFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(3, 1)})
		job := g.SubmitTasks(3, hollow.Task(1000), gang.Gang{})
		g.Running(job)
		g.FailTask(job.Tasks[1])
		g.Ended(job)
		want := "member " + job.Tasks[1] + " failed: exit code 1"
		if stop := g.Snapshot().Task(cluster.ID{Namespace: "d", ID: job.Tasks[0]}).Info.V.Stop; stop == nil || stop.Reason != want {
			t.Errorf("%+v, want %q", stop, want)
		}
	})
}
