package admission_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/types"
)

func TestQueueLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 8)}, "q", admission.Queue{Limit: 3})
		a := s.Submit(esl.Copies(6, hollow.Task(100, "run", "10s")), esl.Use{Name: "q"})
		time.Sleep(time.Second)
		b := s.Submit(esl.Copies(2, hollow.Task(100, "run", "10s")), esl.Use{Name: "q"})
		time.Sleep(time.Second)
		if n := len(esltest.Begun(s, a, b)); n != 3 {
			t.Errorf("%d have begun, want 3", n)
		}
		v := s.Snapshot()
		if says := esl.Why(v, builtin.Kinds(), cluster.ID{Namespace: "d", ID: b.Tasks[0]}, time.Now()); len(says) != 1 || says[0].Summary != "queue q has all of its 3 in use" {
			t.Errorf("why: %v", says)
		}
		time.Sleep(10 * time.Second)
		if n, first := len(esltest.Begun(s, a, b)), len(esltest.Begun(s, a)); n != 6 || first != 6 {
			t.Errorf("%d have begun, %d of the first job, want 6", n, first)
		}
		// A closed queue starts no task; after it opens, they start.
		for _, test := range []struct {
			q    admission.Queue
			want int
		}{{admission.Queue{Closed: true}, 6}, {admission.Queue{Limit: 1}, 7}, {admission.Queue{}, 8}} {
			if err := s.Jobs.Declare(t.Context(), "q", test.q, ""); err != nil {
				t.Fatal(err)
			}
			if test.q.Limit == 1 {
				time.Sleep(time.Second)
			} else {
				time.Sleep(11 * time.Second)
			}
			if n := len(esltest.Begun(s, a, b)); n != test.want {
				t.Errorf("%+v: %d have begun, want %d", test.q, n, test.want)
			}
		}
		s.Stop(a, b)
		s.NothingLeft("d/q.queue")
	})
}

// TestQueueRate starts no more within any time than the rate says, however fast they end, and
// whichever process runs the policy.
func TestQueueRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 8)}, "q", admission.Queue{Rate: 4, Per: manifest.Duration(10 * time.Second)})
		var jobs []controlplane.Launched
		for range 3 {
			jobs = append(jobs, s.Submit(esl.Copies(6, hollow.Task(100, "run", "300ms")), esl.Use{Name: "q"}))
		}
		for range 8 {
			time.Sleep(5100 * time.Millisecond)
			s.StopKeeping()
			s.Keep()
		}
		begun := esltest.Begun(s, jobs...)
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
		s.NothingLeft("d/q.queue")
	})
}

// TestQueueOfWhatWaits admits tasks that can run before tasks that wait for something else.
func TestQueueOfWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 8)}, "q", admission.Queue{Rate: 1, Per: manifest.Duration(time.Minute)})
		later := hollow.Task(100, "run", "1s")
		later.Task.Requests = later.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"signal": 1}))
		first := s.Submit(esl.Copies(3, later), esl.Use{Name: "q"})
		time.Sleep(time.Second)
		second := s.Submit(esl.Copies(2, hollow.Task(100, "run", "1s")), esl.Use{Name: "q"})
		time.Sleep(5 * time.Second)
		if n := len(esltest.Begun(s, second)); n != 1 {
			t.Errorf("%d have begun, want 1", n)
		}
		says := esl.Why(s.Snapshot(), builtin.Kinds(), cluster.ID{Namespace: "d", ID: second.Tasks[1]}, time.Now())
		says = append(says, esl.Why(s.Snapshot(), builtin.Kinds(), cluster.ID{Namespace: "d", ID: second.Tasks[0]}, time.Now())...)
		if len(says) != 1 || says[0].Summary != "queue q lets 1 begin in 1m0s; 0 are before it" {
			t.Errorf("why: %v", says)
		}
		s.Stop(first, second)
		s.NothingLeft("d/q.queue")
	})
}

// TestFairQueue admits flows by weight, in any order of arrival, and forgets nothing when another
// process runs it.
func TestFairQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 64)}, "q", admission.FairQueue{Limit: 4, Flows: map[string]float64{"gold": 3}, Anyone: 1})
		of := func(flow string, n int) controlplane.Launched {
			return s.Submit(esl.Copies(n, hollow.Task(100, "run", "1s")), esl.Use{Name: "q", As: flow})
		}
		iron := of("iron", 120)
		time.Sleep(5 * time.Second)
		alone := len(esltest.Begun(s, iron))
		if alone < 16 {
			t.Errorf("%d have begun, want 4 a second", alone)
		}
		gold := of("gold", 120)
		for range 5 {
			time.Sleep(4 * time.Second)
			s.StopKeeping()
			s.Keep()
		}
		g, i := len(esltest.Begun(s, gold)), len(esltest.Begun(s, iron))-alone
		if total := g + i; total < 70 || g < total*3/4-3 || g > total*3/4+3 {
			t.Errorf("%d of gold and %d of iron, want 3 to 1", g, i)
		}
		says := esl.Why(s.Snapshot(), builtin.Kinds(), cluster.ID{Namespace: "d", ID: gold.Tasks[119]}, time.Now())
		// At a whole second some tasks may have ended before others have been admitted.
		if len(says) != 1 || !strings.HasPrefix(says[0].Summary, "fair-queue q has let in ") || !strings.Contains(says[0].Summary, " of 4; ") {
			t.Errorf("why: %v", says)
		}
		// A new flow has saved nothing, and lost nothing.
		before := len(esltest.Begun(s, gold))
		late := of("late", 40)
		time.Sleep(10 * time.Second)
		l, g2 := len(esltest.Begun(s, late)), len(esltest.Begun(s, gold))-before
		if l < 5 || l > 10 || g2 < 18 || g2 > 26 {
			t.Errorf("%d of late and %d of gold in 10 s, want 1 to 3 of 40", l, g2)
		}
		s.Stop(iron, gold, late)
		s.NothingLeft()
	})
}

// TestFairQueueFew keeps the gates of a few ended tasks.
func TestFairQueueFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 64)}, "q", admission.FairQueue{Limit: 10, Anyone: 1})
		job := s.Submit(esl.Copies(200, hollow.Task(100, "run", "1s")), esl.Use{Name: "q", As: "x"})
		most := 0
		for range 18 {
			time.Sleep(time.Second)
			gates := 0
			for rid, pool := range s.Snapshot().Pools {
				if pool.Info.V != nil && strings.Contains(string(rid), ".fair-queue.") {
					gates++
				}
			}
			most = max(most, gates)
		}
		if most < 10 || most > 60 {
			t.Errorf("%d gates at once, want 10 and a few", most)
		}
		s.Stop(job)
		s.NothingLeft()
	})
}

func TestQueuesRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 4)}, "q", admission.Queue{Rate: 1})
		for id, p := range map[string]esl.Shared{"q2": admission.Queue{Rate: 1}, "f": admission.FairQueue{Limit: 1, Flows: map[string]float64{"a": 1}}} {
			if err := s.Jobs.Declare(t.Context(), id, p, ""); err != nil {
				t.Fatal(err)
			}
		}
		for i, test := range []struct {
			policies []esl.Policy
			want     string
		}{
			{[]esl.Policy{esl.Use{Name: "f"}}, `as: is missing: name the flow of the tasks, such as a`},
			{[]esl.Policy{esl.Use{Name: "f", As: "a", Of: "queue"}}, "name: f is of kind fair-queue, not queue"},
			{[]esl.Policy{esl.Use{Name: "q", Amount: 2}}, "amount: 2: q is of kind queue, of which tasks hold no amounts: leave amount out"},
			{[]esl.Policy{esl.Use{Name: "q", As: "a"}}, `as: "a": q is of kind queue, which has no flows or users: leave as out`},
			{[]esl.Policy{esl.Use{Name: "f", As: "b"}}, `as: there is no flow "b": use a`},
			{[]esl.Policy{esl.Use{Name: "q"}, esl.Use{Name: "q2"}}, "two policies of kind queue would let the tasks in"},
			{[]esl.Policy{esl.Use{Name: "q"}, esl.Use{Name: "q"}}, "the job uses q twice"},
			{[]esl.Policy{admission.Queue{}}, "queue is shared: declare it"},
		} {
			_, err := s.Jobs.Submit(t.Context(), controlplane.Job{Name: "j", Tasks: esl.Copies(2, hollow.Task(100))}, test.policies...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%d: %v, want %q", i, err, test.want)
			}
		}
		for i, test := range []struct {
			p    esl.Shared
			want string
		}{
			{admission.Queue{Limit: -1}, "limit: -1 is out of range"},
			{admission.Queue{Per: 1}, "per: there is no rate"},
			{admission.FairQueue{Anyone: 1}, "limit: 0 is out of range"},
			{admission.FairQueue{Limit: 1}, "flows: there are none"},
			{admission.FairQueue{Limit: 1, Flows: map[string]float64{"a": 0}}, "flows.a: 0 is out of range"},
		} {
			if err := s.Jobs.Declare(t.Context(), fmt.Sprintf("x%d", i), test.p, ""); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v: %v, want %q", test.p, err, test.want)
			}
		}
	})
}

// TestQueueOrder admits by priority, then by age, whatever order they waited in before.
func TestQueueOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 64)}, "q", admission.Queue{Rate: 1, Per: manifest.Duration(10 * time.Second)})
		of := func(priority, n int) controlplane.Launched {
			task := hollow.Task(100, "run", "1s")
			task.Task.Priority = priority
			time.Sleep(100 * time.Millisecond)
			return s.Submit(esl.Copies(n, task), esl.Use{Name: "q"})
		}
		low, high, older, later := of(0, 3), of(5, 2), of(2, 1), of(2, 1)
		time.Sleep(80 * time.Second)
		order := esltest.Begun(s, low, high, older, later)
		if len(order) != 7 {
			t.Fatalf("%d have begun, want 7", len(order))
		}
		// The first of the low ones was alone when it came.
		for i, pair := range [][2]int{{0, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 1}, {1, 2}} {
			if !order[pair[0]].Before(order[pair[1]]) {
				t.Errorf("%d: task %d began at %s, and task %d at %s", i, pair[0], order[pair[0]].Format("05.0"), pair[1], order[pair[1]].Format("05.0"))
			}
		}
		s.NothingLeft("d/q.queue")
	})
}

// TestQueueRateOfWhoIsLetIn counts admitted tasks without a node, so that no more than the rate
// begin when there is capacity.
func TestQueueRateOfWhoIsLetIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 8)}, "q", admission.Queue{Rate: 2, Per: manifest.Duration(10 * time.Second)})
		full, err := s.Jobs.Submit(t.Context(), controlplane.Job{Name: "full", Tasks: esl.Copies(1, hollow.Task(8000, "run", "30s"))})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		job := s.Submit(esl.Copies(6, hollow.Task(100, "run", "1s")), esl.Use{Name: "q"})
		time.Sleep(32 * time.Second)
		if n, m := len(esltest.Begun(s, full)), len(esltest.Begun(s, job)); n != 1 || m != 2 {
			t.Errorf("%d of 6 have begun, want 2", m)
		}
		s.Stop(job)
		s.NothingLeft("d/q.queue")
	})
}
