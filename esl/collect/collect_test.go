package collect

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

func priority(p int) func(*types.Reservation) { return func(r *types.Reservation) { r.Priority = p } }

// TestWhoCollects: the first in the queue that has waited long enough, one at a time.
func TestWhoCollects(t *testing.T) {
	for name, c := range map[string]struct {
		build func(w *world)
		want  string
	}{
		"nothing":          {func(*world) {}, ""},
		"not yet":          {func(w *world) { w.gang("a", 1, 0) }, ""},
		"a gang":           {func(w *world) { w.gang("a", 2, 1) }, "a: n1+n2"},
		"a task":           {func(w *world) { w.task("a", 1) }, "a: n1"},
		"the oldest":       {func(w *world) { w.gang("a", 1, 2); w.gang("b", 1, 3) }, "b: n1"},
		"the highest":      {func(w *world) { w.gang("a", 1, 2); w.gang("b", 1, 1, priority(1)) }, "b: n1"},
		"the raised":       {func(w *world) { w.gang("a", 1, 2); w.gang("b", 1, 1, func(r *types.Reservation) { r.Raised = 1 }) }, "b: n1"},
		"equal ones by id": {func(w *world) { w.task("b", 2); w.gang("a", 1, 2) }, "a: n1"},
		"not the younger":  {func(w *world) { w.gang("a", 1, 2); w.gang("b", 1, 0, priority(9)) }, "a: n1"},
		"what can begin":   {func(w *world) { w.gang("a", 3, 2); w.gang("b", 1, 1) }, "b: n1"},
		"only what may":    {func(w *world) { w.gang("a", 1, 2, func(r *types.Reservation) { r.Accumulate = false }) }, ""},
		"not what is granted": {func(w *world) {
			w.gang("a", 1, 2)
			w.put(controlplane.GrantKey("d", "a"), &types.Grant{Phase: types.Granted, Reservation: w.revision})
		}, ""},
		"not what is stopped":          {func(w *world) { w.task("a", 2, func(t *types.Task) { t.Stop = &types.Stop{} }) }, ""},
		"not what is overdue":          {func(w *world) { w.task("a", 2, func(t *types.Task) { t.Deadline = w.now.UnixNano() }) }, ""},
		"not what no scheduler places": {func(w *world) { w.task("a", 2, func(t *types.Task) { t.Scheduler = "mine" }) }, ""},
		"what its scheduler places": {func(w *world) {
			w.put(controlplane.SchedulerKey("mine"), &types.Leader{})
			w.task("a", 2, func(t *types.Task) { t.Scheduler = "mine" })
		}, "a: n1"},
		"not before its retry": {func(w *world) {
			w.task("a", 2)
			w.put(controlplane.StatusKey("d", "a"), &types.Status{Phase: types.Pending, Retry: w.now.Add(time.Second).UnixNano()})
		}, ""},
		"not what its maker directs, nor does that count": {func(w *world) {
			direct := func(r *types.Reservation) { r.Accumulate, r.Collect = false, &types.Collect{On: []string{"n2"}} }
			w.gang("a", 1, 9, direct)
			w.gang("c", 1, 9, direct)
			w.has("c", 100)
			w.gang("b", 1, 2)
		}, "b: n1"},
		"not what its job makes room for": {func(w *world) {
			w.gang("a", 1, 2, func(r *types.Reservation) { r.Job = "j" })
			w.gang("room", 1, 0, func(r *types.Reservation) {
				r.Job, r.Accumulate, r.Collect = "j", false, &types.Collect{On: []string{"n2"}, HandOver: true}
			})
		}, ""},
		"not for more than a pool has": {func(w *world) {
			w.put(controlplane.ResourceKey("d", "lic", types.ClusterWide), &types.Resource{Capacity: 1})
			w.gang("a", 2, 2, func(r *types.Reservation) {
				for i := range r.Bundles {
					r.Bundles[i].Requests = r.Bundles[i].Requests.Plus(types.NewRequests(map[string]types.Quantity{"lic": 1}))
				}
			})
		}, ""},
		"not while more of a pool is in use than it has": {func(w *world) {
			w.put(controlplane.ResourceKey("d", "lic", types.ClusterWide), &types.Resource{Capacity: 2})
			w.put(controlplane.PoolKey("d", "lic"), &types.Allocated{Holds: []types.Holding{{Resource: "d:lic", Amount: 3, Cluster: true}}})
			w.gang("a", 1, 2, func(r *types.Reservation) {
				r.Bundles[0].Requests = r.Bundles[0].Requests.Plus(types.NewRequests(map[string]types.Quantity{"lic": 1}))
			})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 100, 0)
			w.node("n2", 200, 0)
			c.build(w)
			w.says(c.want)
			w.says("")
		})
	}
}

// TestTwoGangs: the second begins once the first has all, whatever becomes of the server that decides.
func TestTwoGangs(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 100, 0)
	w.node("n2", 200, 0)
	w.gang("a", 2, 3)
	w.gang("b", 2, 2)
	w.says("a: n1+n2")
	w.has("a", 900, 800)
	w.restart()
	w.says("")
	w.later(time.Hour)
	w.gang("c", 2, 1) // younger
	w.restart()
	w.says("")
	w.put(controlplane.GrantKey("d", "a"), &types.Grant{Phase: types.Granted, Reservation: w.created[controlplane.ReservationKey("d", "a")], Bundles: []string{"n1", "n2"}})
	w.later(searchEvery)
	w.says("b: n1+n2")
}

// TestAnotherPrecedes: a candidate that precedes, has waited long enough and can begin collects
// instead, in one transaction.
func TestAnotherPrecedes(t *testing.T) {
	for name, c := range map[string]struct {
		build func(w *world)
		want  string
	}{
		"higher, and aged":         {func(w *world) { w.gang("b", 1, 1, priority(1)) }, "a: nothing, b: n1"},
		"higher, and not aged":     {func(w *world) { w.gang("b", 1, 0, priority(1)) }, ""},
		"higher, and too large":    {func(w *world) { w.gang("b", 3, 1, priority(1)) }, ""},
		"higher, and may not":      {func(w *world) { w.gang("b", 1, 1, priority(1), func(r *types.Reservation) { r.Accumulate = false }) }, ""},
		"a task, higher, and aged": {func(w *world) { w.task("b", 1, func(t *types.Task) { t.Priority = 1 }) }, "a: nothing, b: n1"},
		"younger":                  {func(w *world) { w.gang("b", 1, 1) }, ""},
		"older":                    {func(w *world) { w.gang("b", 1, 9) }, "a: nothing, b: n1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 100, 0)
			w.node("n2", 200, 0)
			w.gang("a", 2, 3)
			w.says("a: n1+n2")
			w.has("a", 0, 0)
			w.says("")
			w.later(searchEvery)
			c.build(w)
			w.says(c.want)
			w.says("")
		})
	}
}

// TestTwoAreDirected: of two that collect, whatever directed them, the one that precedes goes on.
func TestTwoAreDirected(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 100, 0)
	on := func(r *types.Reservation) { r.Collect = &types.Collect{On: []string{"n1"}} }
	w.gang("a", 1, 2, on)
	w.gang("b", 1, 3, on)
	w.says("a: nothing")
	w.says("")
}

// TestItsWaitIsOver: a task that is bound is not directed any more, and may be again when it waits.
func TestItsWaitIsOver(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 100, 0)
	w.task("a", 1)
	w.says("a: n1")
	w.put(controlplane.StatusKey("d", "a"), &types.Status{Phase: types.Bound, Node: "n1", Attempt: 1})
	w.says("a: nothing")
	w.says("")
	w.put(controlplane.StatusKey("d", "a"), &types.Status{Phase: types.Pending, Attempt: 1})
	w.later(searchEvery)
	w.says("a: n1")
	w.put(controlplane.StatusKey("d", "a"), &types.Status{Phase: types.Succeeded, Attempt: 1})
	if w.says(""); !w.state.Idle(w.view) {
		t.Error("it is not idle")
	}
}

// TestGivesWay: what collects gives way to what is directed by its maker for its own job, or above it
// in its namespace.
func TestGivesWay(t *testing.T) {
	room := func(edit func(*types.Reservation)) func(w *world) {
		return func(w *world) {
			w.gang("room", 1, 0, func(r *types.Reservation) {
				r.Job, r.Priority, r.Accumulate, r.Collect = "k", 1, false, &types.Collect{On: []string{"n1"}, HandOver: true}
				edit(r)
			})
			w.put(controlplane.GrantKey("d", "room"), &types.Grant{
				Phase: types.Collecting, Reservation: w.revision, Bundles: []string{"n1"}, Nodes: []types.GrantNode{{Node: "n1"}},
			})
		}
	}
	for name, c := range map[string]struct {
		build func(w *world)
		want  string
	}{
		"above":       {room(func(*types.Reservation) {}), "a: nothing"},
		"equal":       {room(func(r *types.Reservation) { r.Priority = 0 }), ""},
		"its own job": {room(func(r *types.Reservation) { r.Priority, r.Job = 0, "j" }), "a: nothing"},
		"returned": {func(w *world) { // as the store refuses what it collects
			room(func(*types.Reservation) {})(w)
			w.del(controlplane.GrantKey("d", "room"))
		}, ""},
		"for itself": {room(func(r *types.Reservation) { r.Collect.HandOver = false }), ""},
		"more than a pool has": {func(w *world) {
			w.put(controlplane.ResourceKey("d", "lic", types.ClusterWide), &types.Resource{})
		}, "a: nothing"},
		"a pool is lowered below what is in use": {func(w *world) {
			w.put(controlplane.ResourceKey("d", "lic", types.ClusterWide), &types.Resource{Capacity: 2})
			w.put(controlplane.PoolKey("d", "lic"), &types.Allocated{Holds: []types.Holding{{Resource: "d:lic", Amount: 3, Cluster: true}}})
		}, "a: nothing"},
		"all of a pool is in use": {func(w *world) {
			w.put(controlplane.PoolKey("d", "lic"), &types.Allocated{Holds: []types.Holding{{Resource: "d:lic", Amount: 1, Cluster: true}}})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 100, 0)
			w.put(controlplane.ResourceKey("d", "lic", types.ClusterWide), &types.Resource{Capacity: 1})
			w.gang("a", 1, 1, func(r *types.Reservation) {
				r.Job = "j"
				r.Bundles[0].Requests = r.Bundles[0].Requests.Plus(types.NewRequests(map[string]types.Quantity{"lic": 1}))
			})
			w.says("a: n1")
			w.has("a", 900)
			w.later(searchEvery)
			c.build(w)
			w.says(c.want)
			w.later(searchEvery)
			w.says("") // and it does not begin there while that lacks something
		})
	}
}

// TestLends: the time until which a collection is lent follows the known ends of tasks.
func TestLends(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 600, time.Hour, 2*time.Hour)
	w.gang("a", 1, 1)
	w.says("a: n1")
	w.has("a", 400)
	w.says("a: n1 until 2h0m0s")
	w.says("")
	w.ends("n1", 1)
	w.has("a", 700)
	w.says("a: n1 until 1h0m0s")
	w.put(controlplane.BindingKey("n1", "d", "onn10", 1), &types.Binding{Bound: w.now.UnixNano(), Holds: []types.Holding{{Resource: "cpu", Amount: 300}}})
	w.says("a: n1") // no end is known any more
}

// TestLendsNothingUnknown: nothing is lent while one of the ends is not known.
func TestLendsNothingUnknown(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 600, time.Hour)
	w.node("n2", 600, 0)
	w.gang("a", 2, 1)
	w.says("a: n1+n2")
	w.has("a", 400, 400)
	w.says("")
}

// TestALostNode: bundles on a lost node get another one, and the others stay.
func TestALostNode(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 100, 0)
	w.node("n2", 200, 0)
	w.gang("a", 2, 1)
	w.says("a: n1+n2")
	w.has("a", 900, 800)
	w.says("")
	w.del(controlplane.AliveKey("n1"))
	w.says("a: +n2")
	w.says("")
	w.node("n3", 300, 0)
	w.says("a: n3+n2")
	w.put(controlplane.CordonKey("n2"), &types.Cordon{})
	w.node("n1", 0)
	w.says("a: n3+n1")
}

// TestMovesOn: after ten times the wait without progress, the bundles on the first incomplete node
// move, as long as attempts end somewhere.
func TestMovesOn(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 100, 0)
	w.node("n2", 200, 0)
	w.gang("a", 1, 1)
	w.says("a: n1")
	w.has("a", 900)
	w.says("")
	w.later(10*time.Minute - 1)
	w.says("")
	w.later(1)
	w.says("a: n2")
	w.has("a", 800)
	w.says("")
	w.later(10 * time.Minute)
	w.says("") // all nodes were tried
	w.later(time.Hour)
	w.says("")
	w.node("n9", 1000, 0)
	w.ends("n9", 0)
	w.says("a: n1")
}

// TestStaysWhereTheEndIsKnown: it waits for tasks that end by a known time.
func TestStaysWhereTheEndIsKnown(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 100, time.Hour)
	w.node("n2", 200, 0)
	w.gang("a", 1, 1)
	w.says("a: n1")
	w.has("a", 900)
	w.says("a: n1 until 1h0m0s")
	w.later(time.Hour)
	w.says("")
	w.later(10 * time.Minute)
	w.says("a: n2")
}

// TestNoSchedulerCollects: what no scheduler collects for is passed over for a while.
func TestNoSchedulerCollects(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 100, 0)
	w.gang("a", 1, 2)
	w.gang("b", 1, 1)
	w.says("a: n1")
	w.says("")
	w.later(10 * time.Minute)
	w.says("a: nothing")
	w.says("b: n1")
}

// TestSearchesAreRare: all nodes are searched at most once a second, and only after a change.
func TestSearchesAreRare(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 100, 0)
	w.gang("a", 3, 1)
	w.says("")
	first := w.state.places.at
	w.later(time.Minute)
	if p := w.state.Next(w.view, w.now); w.state.places.at != first || !p.Again.IsZero() {
		t.Errorf("without a change it searches again, or at %s", p.Again)
	}
	w.node("n2", 0)
	w.says("")
	first = w.state.places.at
	w.node("n3", 0)
	if p := w.state.Next(w.view, w.now); w.state.places.at != first || p.Again != w.now.Add(searchEvery) {
		t.Errorf("it searches again at once, or at %s", p.Again)
	}
	w.later(searchEvery)
	w.says("a: n2+n3+n1")
}

// TestWakes: the next decision is when the next one has waited long enough.
func TestWakes(t *testing.T) {
	w := newWorld(t)
	w.gang("a", 1, 0)
	w.later(time.Second)
	w.gang("b", 1, 0)
	if p := w.state.Next(w.view, w.now); p.Again != w.now.Add(time.Minute-time.Second) {
		t.Errorf("it wakes at %s, and it is %s", p.Again, w.now)
	}
}

// TestWaitsAsLongAsTasksRun: by default a gang waits for 24 times the mean run of what has ended, at
// least half a minute, and at most a week. Only what ran counts.
func TestWaitsAsLongAsTasksRun(t *testing.T) {
	for _, c := range []struct {
		ran  []time.Duration // 0 did not run
		want time.Duration
	}{
		{nil, 30 * time.Second},
		{[]time.Duration{time.Second, 0}, 30 * time.Second},
		{[]time.Duration{time.Minute, 3 * time.Minute, 0}, 48 * time.Minute},
		{[]time.Duration{100 * 365 * 24 * time.Hour, time.Hour}, 7 * 24 * time.Hour},
	} {
		w := newWorld(t)
		w.state = New(Config{})
		w.node("n1", 100, 0)
		for i, ran := range c.ran {
			s := &types.Status{Phase: types.Failed, Attempt: 1}
			if ran != 0 {
				s.Started = 1
				s.Ended = s.Started + ran.Nanoseconds()
			}
			key := controlplane.StatusKey("d", fmt.Sprint("ended", i))
			if w.put(key, s); i == 0 { // a second write of an ended task counts nothing
				s.Reason = "again"
				w.put(key, s)
			}
		}
		submitted := w.now
		w.gang("a", 1, 0)
		w.says("")
		if w.state.after != c.want {
			t.Errorf("after %v: it waits for %s, want %s", c.ran, w.state.after, c.want)
		}
		w.now = submitted.Add(c.want - time.Second)
		w.says("")
		w.now = submitted.Add(c.want)
		w.says("a: n1")
	}
}

// TestTheLastMeanHolds: the run of a deleted task counts, and the mean of a former view until there is
// another.
func TestTheLastMeanHolds(t *testing.T) {
	w := newWorld(t)
	w.state = New(Config{})
	w.node("n1", 100, 0)
	w.put(controlplane.StatusKey("d", "ended"), &types.Status{Phase: types.Failed, Attempt: 1, Started: 1, Ended: 1 + time.Minute.Nanoseconds()})
	w.gang("a", 1, 0)
	w.says("")
	w.del(controlplane.StatusKey("d", "ended"))
	w.says("")
	if w.state.after != 24*time.Minute {
		t.Errorf("once the task is deleted, it waits for %s", w.state.after)
	}
	w.view = cluster.New()
	w.gang("a", 1, 0)
	w.says("")
	if w.view.MeanRun() != 0 || w.state.after != 24*time.Minute {
		t.Errorf("the mean of a new view is %s, and it waits for %s", w.view.MeanRun(), w.state.after)
	}
}

// TestWaits: the times that follow from a given wait, and from how long tasks run.
func TestWaits(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		after, mean time.Duration
		want        waits
	}{
		{0, 0, waits{30 * time.Second, 5 * time.Minute, 5 * time.Minute}},
		{0, time.Hour, waits{day, 2 * time.Hour, 5 * time.Minute}},
		{0, longRun, waits{7 * day, day, 5 * time.Minute}},
		{time.Second, time.Hour, waits{time.Second, 10 * time.Second, 10 * time.Second}},
		{time.Hour, 0, waits{time.Hour, 10 * time.Hour, 5 * time.Minute}},
		{types.MaxDuration, longRun, waits{types.MaxDuration, types.MaxDuration, 5 * time.Minute}},
	} {
		if got := (Config{After: c.after}).waitsFor(c.mean); got != c.want {
			t.Errorf("after %s, runs of %s: %v, want %v", c.after, c.mean, got, c.want)
		}
	}
	for after, valid := range map[time.Duration]bool{0: true, 1: true, types.MaxDuration: true, -1: false, types.MaxDuration + 1: false} {
		if err := (Config{After: after}).Validate(); (err == nil) != valid || !valid && !types.Is(err, types.Invalid) {
			t.Errorf("after %d: %v", after, err)
		}
	}
}

// longRun is the longest mean run of a view.
const longRun = 365 * 24 * time.Hour
