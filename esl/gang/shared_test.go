package gang_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/types"
)

// TestGangInSharesAndQueues lets a gang take part in a share and a queue as a whole: it has all of
// it, or nothing.
func TestGangInSharesAndQueues(t *testing.T) {
	for name, c := range map[string]struct {
		declare func(g esltest.Gangs) error
		policy  esl.Policy
	}{
		"queue": {func(g esltest.Gangs) error { return g.Declare(g.T.Context(), "prod", admission.Queue{Limit: 4}, "") }, esl.Use{Name: "prod"}},
		"shares": {func(g esltest.Gangs) error {
			return g.Declare(g.T.Context(), "teams", share.FairShare{Of: map[string]share.Team{"a": {}, "b": {}}}, "")
		}, esl.Use{Name: "teams", As: "a"}},
	} {
		for _, order := range []string{"gang first", "gang last"} {
			t.Run(name+", "+order, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(4, 2)})
					if err := c.declare(g); err != nil {
						t.Fatal(err)
					}
					policies := []esl.Policy{gang.Gang{}, c.policy}
					if order == "gang last" {
						policies[0], policies[1] = policies[1], policies[0]
					}
					first := g.SubmitTasks(3, hollow.Task(2000, "run", "30s"), policies...)
					time.Sleep(time.Second)
					second := g.SubmitTasks(3, hollow.Task(2000, "run", "30s"), policies...)
					g.Running(first)
					time.Sleep(5 * time.Second)
					for _, id := range second.Tasks {
						if p := g.Snapshot().Task(cluster.ID{Namespace: "d", ID: id}).Phase(); p != types.Pending {
							t.Errorf("%s is %s: there is no place for all", id, p)
						}
					}
					g.Running(second)
					g.Ended(second)
					if err := g.Audit(t.Context()); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// TestGangBeyondAShare refuses a gang that a shared policy would never admit. A later change of the
// policy to that effect does not make the gang block others.
func TestGangBeyondAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(2, 4)})
		declare := func(id string, p esl.Shared) {
			t.Helper()
			if err := g.Declare(t.Context(), id, p, ""); err != nil {
				t.Fatal(err)
			}
		}
		declare("q", admission.Queue{Limit: 2})
		declare("s", admission.Semaphore{Limit: 4})
		declare("f", admission.FairQueue{Limit: 2, Anyone: 1})
		declare("r", admission.Queue{Rate: 2})
		for says, p := range map[string]esl.Policy{
			"3 of q.queue, of which there is 2":     esl.Use{Name: "q"},
			"6 of s.semaphore, of which there is 4": esl.Use{Name: "s", Amount: 2},
			"all 3 tasks begin at once, and f lets": esl.Use{Name: "f", As: "me"},
			"at once, and r lets 2 begin within 1s": esl.Use{Name: "r"},
		} {
			_, err := g.Submit(t.Context(), controlplane.Job{Name: "train", Tasks: esl.Copies(3, hollow.Task(1000))}, gang.Gang{}, p)
			if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, want %q", err, says)
			}
		}
		declare("q", admission.Queue{Limit: 3})
		holder := g.SubmitTasks(1, hollow.Task(4000, "run", "2m"))
		g.Running(holder)
		job := g.SubmitTasks(3, hollow.Task(2000), gang.Gang{}, esl.Use{Name: "q"})
		declare("q", admission.Queue{Limit: 1})
		time.Sleep(time.Minute)
		if want := "gang train: it asks for 3 of d:q.queue, which has 1: it waits until that has as much"; !strings.Contains(g.Why(job.Tasks[0]), want) {
			t.Errorf("why: %q, want %q", g.Why(job.Tasks[0]), want)
		}
		slot := hollow.Task(1000)
		slot.Task.Requests = types.NewRequests(map[string]types.Quantity{"cpu": 1000, "slot": 1000})
		asks := g.SubmitTasks(2, slot, gang.Gang{})
		time.Sleep(time.Second)
		if want := "gang train: it asks for d:slot, of which no node has any: it waits until one has"; !strings.Contains(g.Why(asks.Tasks[0]), want) {
			t.Errorf("why: %q, want %q", g.Why(asks.Tasks[0]), want)
		}
		// A view that lacks what the namespace requests of another one.
		if err := g.SetNamespace(t.Context(), "d", func(n *types.Namespace) error {
			n.Requests = types.NewRequests(map[string]types.Quantity{"org:slots": 1000})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		small := g.SubmitTasks(2, hollow.Task(1), gang.Gang{})
		time.Sleep(time.Second)
		if got := g.Why(small.Tasks[0]); strings.Contains(got, "gang train:") {
			t.Errorf("why: %q, and the gang knows nothing of it", got)
		}
		if err := g.SetNamespace(t.Context(), "d", func(n *types.Namespace) error { n.Requests = nil; return nil }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		g.Running(small)
		for id, r := range g.Snapshot().Reservations {
			if r.Grant.V != nil && !strings.HasPrefix(id.ID, small.Job) {
				t.Errorf("%s holds %v", id, r.Grant.V.Nodes)
			}
		}
		g.Running(g.SubmitTasks(4, hollow.Task(1000, "run", "5s"), place.Apart{PerNode: 4}))
		declare("q", admission.Queue{Limit: 3})
		g.Running(job)
		if err := g.Audit(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
