package esl_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// A gang takes part in a share, and in a queue, as a whole: of what it may not have all of
// it has nothing.
func TestGangInSharesAndQueues(t *testing.T) {
	for name, c := range map[string]struct {
		declare func(g gangs) error
		policy  esl.Policy
	}{
		"queue": {func(g gangs) error { return g.Declare(g.t.Context(), "prod", esl.Queue{Limit: 4}, "") }, esl.Queued{In: "prod"}},
		"shares": {func(g gangs) error {
			return g.Declare(g.t.Context(), "teams", esl.FairShare{Of: map[string]esl.Team{"a": {}, "b": {}}}, "")
		}, esl.Share{In: "teams", As: "a"}},
	} {
		for _, order := range []string{"gang first", "gang last"} {
			t.Run(name+", "+order, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := startGangs(t, hollow.Config{Nodes: hollow.Nodes(4, 2)})
					if err := c.declare(g); err != nil {
						t.Fatal(err)
					}
					policies := []esl.Policy{esl.Gang{}, c.policy}
					if order == "gang last" {
						policies[0], policies[1] = policies[1], policies[0]
					}
					first := g.submit(3, hollow.Task(2000, "run", "30s"), policies...)
					time.Sleep(time.Second)
					second := g.submit(3, hollow.Task(2000, "run", "30s"), policies...)
					g.running(first)
					time.Sleep(5 * time.Second)
					for _, id := range second.Tasks {
						if p := g.view().Task(cluster.ID{Namespace: "d", ID: id}).Phase(); p != types.Pending {
							t.Errorf("%s is %s: there is no place for all", id, p)
						}
					}
					g.running(second)
					g.ended(second)
					if err := g.Audit(t.Context()); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// A gang that could never begin, as a shared policy never lets so many be, is refused at
// submission; and one for which that was changed later keeps nobody else from anything.
func TestGangBeyondAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := startGangs(t, hollow.Config{Nodes: hollow.Nodes(2, 4)})
		declare := func(id string, p esl.Shared) {
			t.Helper()
			if err := g.Declare(t.Context(), id, p, ""); err != nil {
				t.Fatal(err)
			}
		}
		declare("q", esl.Queue{Limit: 2})
		declare("s", esl.Semaphore{Limit: 4})
		declare("f", esl.FairQueue{Limit: 2, Anyone: 1})
		declare("r", esl.Queue{Rate: 2})
		for says, p := range map[string]esl.Policy{
			"3 of q.queue, of which there is 2":     esl.Queued{In: "q"},
			"6 of s.semaphore, of which there is 4": esl.Holds{Semaphore: "s", Amount: 2},
			"all 3 tasks begin at once, and f lets": esl.Flow{In: "f", As: "me"},
			"at once, and r lets 2 begin within 1s": esl.Queued{In: "r"},
		} {
			_, err := g.Submit(t.Context(), esl.Job{Name: "train", Tasks: esl.Copies(3, hollow.Task(1000))}, esl.Gang{}, p)
			if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, want %q", err, says)
			}
		}
		declare("q", esl.Queue{Limit: 3})
		holder := g.submit(1, hollow.Task(4000, "run", "2m"))
		g.running(holder)
		job := g.submit(3, hollow.Task(2000), esl.Gang{}, esl.Queued{In: "q"})
		declare("q", esl.Queue{Limit: 1})
		time.Sleep(time.Minute)
		if want := "gang train: it asks for 3 of d:q.queue, which has 1: it waits until that has as much"; !strings.Contains(g.why(job.Tasks[0]), want) {
			t.Errorf("why: %q, want %q", g.why(job.Tasks[0]), want)
		}
		slot := hollow.Task(1000)
		slot.Task.Requests = types.NewRequests(map[string]types.Quantity{"cpu": 1000, "slot": 1000})
		asks := g.submit(2, slot, esl.Gang{})
		time.Sleep(time.Second)
		if want := "gang train: it asks for d:slot, of which no node has any: it waits until one has"; !strings.Contains(g.why(asks.Tasks[0]), want) {
			t.Errorf("why: %q, want %q", g.why(asks.Tasks[0]), want)
		}
		for id, r := range g.view().Reservations {
			if r.Grant.V != nil {
				t.Errorf("%s holds %v", id, r.Grant.V.Nodes)
			}
		}
		g.running(g.submit(4, hollow.Task(1000, "run", "5s"), esl.Apart{PerNode: 4}))
		declare("q", esl.Queue{Limit: 3})
		g.running(job)
		if err := g.Audit(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
