package esl_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// begun returns when the tasks of jobs were bound, as far as they were.
func (s *sharing) begun(jobs ...controlplane.Launched) []time.Time {
	s.t.Helper()
	v := s.view()
	var out []time.Time
	for _, job := range jobs {
		for _, id := range job.Tasks {
			if t := v.Task(cluster.ID{Namespace: "d", ID: id}); t.Status.V != nil && t.Status.V.Bound > 0 {
				out = append(out, time.Unix(0, t.Status.V.Bound))
			}
		}
	}
	return out
}

func TestQueueLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 8)}, "q", esl.Queue{Limit: 3})
		a := s.submit(esl.Copies(6, hollow.Task(100, "run", "10s")), esl.Queued{In: "q"})
		time.Sleep(time.Second)
		b := s.submit(esl.Copies(2, hollow.Task(100, "run", "10s")), esl.Queued{In: "q"})
		time.Sleep(time.Second)
		if n := len(s.begun(a, b)); n != 3 {
			t.Errorf("%d have begun, want 3", n)
		}
		v := s.view()
		if why := esl.Why(v, esl.Builtin(), cluster.ID{Namespace: "d", ID: b.Tasks[0]}, time.Now()); len(why) != 1 || why[0] != "queue q has all of its 3 in use" {
			t.Errorf("why: %q", why)
		}
		time.Sleep(10 * time.Second)
		if n, first := len(s.begun(a, b)), len(s.begun(a)); n != 6 || first != 6 {
			t.Errorf("%d have begun, %d of the first job, want 6", n, first)
		}
		// Closed, nobody begins; opened again, they do.
		for _, test := range []struct {
			q    esl.Queue
			want int
		}{{esl.Queue{Closed: true}, 6}, {esl.Queue{Limit: 1}, 7}, {esl.Queue{}, 8}} {
			if err := s.jobs.Declare(t.Context(), "q", test.q, ""); err != nil {
				t.Fatal(err)
			}
			if test.q.Limit == 1 {
				time.Sleep(time.Second)
			} else {
				time.Sleep(11 * time.Second)
			}
			if n := len(s.begun(a, b)); n != test.want {
				t.Errorf("%+v: %d have begun, want %d", test.q, n, test.want)
			}
		}
		s.stop(a, b)
		s.nothingLeft("d/q.queue")
	})
}

// TestQueueRate lets no more begin within any time than the rate says, however fast they
// end, whoever keeps the policy.
func TestQueueRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 8)}, "q", esl.Queue{Rate: 4, Per: manifest.Duration(10 * time.Second)})
		var jobs []controlplane.Launched
		for range 3 {
			jobs = append(jobs, s.submit(esl.Copies(6, hollow.Task(100, "run", "300ms")), esl.Queued{In: "q"}))
		}
		for range 8 {
			time.Sleep(5100 * time.Millisecond)
			s.StopKeeping()
			s.Keep()
		}
		begun := s.begun(jobs...)
		if len(begun) != 18 {
			t.Errorf("%d have begun after 41 s, want 18", len(begun))
		}
		for _, from := range begun {
			n := 0
			for _, at := range begun {
				if d := at.Sub(from); d >= 0 && d < 10*time.Second {
					n++
				}
			}
			if n > 4 {
				t.Errorf("%d have begun within 10 s", n)
			}
		}
		s.nothingLeft("d/q.queue")
	})
}

// TestQueueOfWhatWaits lets in who can run before who waits for something else.
func TestQueueOfWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 8)}, "q", esl.Queue{Rate: 1, Per: manifest.Duration(time.Minute)})
		later := hollow.Task(100, "run", "1s")
		later.Task.Requests = later.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"signal": 1}))
		first := s.submit(esl.Copies(3, later), esl.Queued{In: "q"})
		time.Sleep(time.Second)
		second := s.submit(esl.Copies(2, hollow.Task(100, "run", "1s")), esl.Queued{In: "q"})
		time.Sleep(5 * time.Second)
		if n := len(s.begun(second)); n != 1 {
			t.Errorf("%d have begun, want 1", n)
		}
		why := esl.Why(s.view(), esl.Builtin(), cluster.ID{Namespace: "d", ID: second.Tasks[1]}, time.Now())
		why = append(why, esl.Why(s.view(), esl.Builtin(), cluster.ID{Namespace: "d", ID: second.Tasks[0]}, time.Now())...)
		if len(why) != 1 || why[0] != "queue q lets 1 begin in 1m0s; 0 are before it" {
			t.Errorf("why: %q", why)
		}
		s.stop(first, second)
		s.nothingLeft("d/q.queue")
	})
}

// TestFairQueue lets flows in by weight, whoever was first, and forgets nothing when
// another one keeps it.
func TestFairQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 64)}, "q", esl.FairQueue{Limit: 4, Flows: map[string]float64{"gold": 3}, Anyone: 1})
		of := func(flow string, n int) controlplane.Launched {
			return s.submit(esl.Copies(n, hollow.Task(100, "run", "1s")), esl.Flow{In: "q", As: flow})
		}
		iron := of("iron", 120)
		time.Sleep(5 * time.Second)
		alone := len(s.begun(iron))
		if alone < 16 {
			t.Errorf("%d have begun, want 4 a second", alone)
		}
		gold := of("gold", 120)
		for range 5 {
			time.Sleep(4 * time.Second)
			s.StopKeeping()
			s.Keep()
		}
		g, i := len(s.begun(gold)), len(s.begun(iron))-alone
		if total := g + i; total < 70 || g < total*3/4-3 || g > total*3/4+3 {
			t.Errorf("%d of gold and %d of iron, want 3 to 1", g, i)
		}
		why := esl.Why(s.view(), esl.Builtin(), cluster.ID{Namespace: "d", ID: gold.Tasks[119]}, time.Now())
		// At a whole second some may have ended for whom nobody has been let in yet.
		if len(why) != 1 || !strings.HasPrefix(why[0], "fair-queue q has let in ") || !strings.Contains(why[0], " of 4; ") {
			t.Errorf("why: %q", why)
		}
		// Who comes now has not saved anything, and lost nothing.
		before := len(s.begun(gold))
		late := of("late", 40)
		time.Sleep(10 * time.Second)
		l, g2 := len(s.begun(late)), len(s.begun(gold))-before
		if l < 5 || l > 10 || g2 < 18 || g2 > 26 {
			t.Errorf("%d of late and %d of gold in 10 s, want 1 to 3 of 40", l, g2)
		}
		s.stop(iron, gold, late)
		s.nothingLeft()
	})
}

// TestFairQueueFew keeps the gates of few tasks that have ended.
func TestFairQueueFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 64)}, "q", esl.FairQueue{Limit: 10, Anyone: 1})
		job := s.submit(esl.Copies(200, hollow.Task(100, "run", "1s")), esl.Flow{In: "q", As: "x"})
		most := 0
		for range 18 {
			time.Sleep(time.Second)
			gates := 0
			for rid, pool := range s.view().Pools {
				if pool.Info.V != nil && strings.Contains(string(rid), ".flow.") {
					gates++
				}
			}
			most = max(most, gates)
		}
		if most < 10 || most > 60 {
			t.Errorf("%d gates at once, want 10 and a few", most)
		}
		s.stop(job)
		s.nothingLeft()
	})
}

func TestQueuesRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 4)}, "q", esl.Queue{Rate: 1})
		for id, p := range map[string]esl.Shared{"q2": esl.Queue{Rate: 1}, "f": esl.FairQueue{Limit: 1, Flows: map[string]float64{"a": 1}}} {
			if err := s.jobs.Declare(t.Context(), id, p, ""); err != nil {
				t.Fatal(err)
			}
		}
		for i, test := range []struct {
			policies []esl.Policy
			want     string
		}{
			{[]esl.Policy{esl.Queued{In: "f"}}, `in: "f" is no queue`},
			{[]esl.Policy{esl.Flow{In: "q", As: "a"}}, `in: "q" is no fair-queue`},
			{[]esl.Policy{esl.Flow{In: "f", As: "b"}}, `as: there is no flow "b": use a`},
			{[]esl.Policy{esl.Queued{In: "q"}, esl.Queued{In: "q2"}}, "by a single queued: drop one"},
			{[]esl.Policy{esl.Queued{In: "q"}, esl.Queued{In: "q"}}, "q is named twice"},
			{[]esl.Policy{esl.Queue{}}, "queue is shared: declare it"},
		} {
			_, err := s.jobs.Submit(t.Context(), esl.Job{Name: "j", Tasks: esl.Copies(2, hollow.Task(100))}, test.policies...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%d: %v, want %q", i, err, test.want)
			}
		}
		for i, test := range []struct {
			p    esl.Shared
			want string
		}{
			{esl.Queue{Limit: -1}, "limit: -1 is out of range"},
			{esl.Queue{Per: 1}, "per: there is no rate"},
			{esl.FairQueue{Anyone: 1}, "limit: 0 is out of range"},
			{esl.FairQueue{Limit: 1}, "flows: there are none"},
			{esl.FairQueue{Limit: 1, Flows: map[string]float64{"a": 0}}, "flows.a: 0 is out of range"},
		} {
			if err := s.jobs.Declare(t.Context(), fmt.Sprintf("x%d", i), test.p, ""); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v: %v, want %q", test.p, err, test.want)
			}
		}
	})
}

// TestQueueOrder lets in by priority, then by age, whoever waited before.
func TestQueueOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 64)}, "q", esl.Queue{Rate: 1, Per: manifest.Duration(10 * time.Second)})
		of := func(priority, n int) controlplane.Launched {
			task := hollow.Task(100, "run", "1s")
			task.Task.Priority = priority
			time.Sleep(100 * time.Millisecond)
			return s.submit(esl.Copies(n, task), esl.Queued{In: "q"})
		}
		low, high, older, later := of(0, 3), of(5, 2), of(2, 1), of(2, 1)
		time.Sleep(80 * time.Second)
		order := s.begun(low, high, older, later)
		if len(order) != 7 {
			t.Fatalf("%d have begun, want 7", len(order))
		}
		// The first of the low was alone when it came.
		for i, pair := range [][2]int{{0, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 1}, {1, 2}} {
			if !order[pair[0]].Before(order[pair[1]]) {
				t.Errorf("%d: task %d began at %s, and task %d at %s", i, pair[0], order[pair[0]].Format("05.0"), pair[1], order[pair[1]].Format("05.0"))
			}
		}
		s.nothingLeft("d/q.queue")
	})
}

// TestQueueRateOfWhoIsLetIn: who is let in and has no node yet counts, so that no more than
// the rate begin when there is room.
func TestQueueRateOfWhoIsLetIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 8)}, "q", esl.Queue{Rate: 2, Per: manifest.Duration(10 * time.Second)})
		full, err := s.jobs.Submit(t.Context(), esl.Job{Name: "full", Tasks: esl.Copies(1, hollow.Task(8000, "run", "30s"))})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		job := s.submit(esl.Copies(6, hollow.Task(100, "run", "1s")), esl.Queued{In: "q"})
		time.Sleep(32 * time.Second)
		if n, m := len(s.begun(full)), len(s.begun(job)); n != 1 || m != 2 {
			t.Errorf("%d of 6 have begun, want 2", m)
		}
		s.stop(job)
		s.nothingLeft("d/q.queue")
	})
}
