package room_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/room"
)

// perRack is how many tasks are bound in each rack, sorted.
func perRack(t *testing.T, c *hollow.Cluster, ids []string) []int {
	t.Helper()
	v, err := c.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	racks := map[string]int{"r0": 0, "r1": 0}
	for _, id := range ids {
		if task := v.Task(esltest.IDOf(id)); task.Phase().Held() {
			racks[v.Nodes[task.Status.V.Node].Info.V.Label("rack")]++
		}
	}
	return slices.Sorted(func(yield func(int) bool) {
		for _, n := range racks {
			if !yield(n) {
				return
			}
		}
	})
}

// TestPreemptWhere makes capacity where the other policies of the job allow its tasks, even
// policies that start them only on nodes with capacity. No eviction is wasted, and the other
// policies hold.
func TestPreemptWhere(t *testing.T) {
	for name, c := range map[string]struct {
		policy esl.Policy
		tasks  int // of two cores each
		run    int
		racks  []int
	}{
		"pack":      {place.Pack{}, 3, 3, nil},
		"packed":    {esl.Use{Name: "p"}, 3, 3, nil},
		"objective": {place.Objective{By: place.Load, Ahead: 1}, 3, 3, nil},
		"placed":    {esl.Use{Name: "o"}, 3, 3, nil},
		"spread":    {place.Spread{Over: esl.Rack}, 5, 5, []int{2, 3}},
		"apart":     {place.Apart{In: esl.Rack, PerNode: 2}, 5, 4, []int{2, 2}},
		"colocate":  {place.Colocate{}, 2, 2, []int{0, 2}},
		"balance":   {place.Balance{Nodes: 2}, 4, 4, nil},
		"elastic":   {place.ElasticBalance{}, 4, 4, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster, jobs := esltest.OrderedOn(t, hollow.Racks(hollow.Nodes(4, 4), 2))
				for id, shared := range map[string]esl.Shared{"p": place.Pack{}, "o": place.Objective{By: place.Load}} {
					if err := jobs.Declare(t.Context(), id, shared, ""); err != nil {
						t.Fatal(err)
					}
				}
				var by []esl.Policy
				if _, ok := c.policy.(esl.Use); ok {
					by = append(by, c.policy)
				}
				low := esltest.Submitted(t, jobs, ofPriority(1, 16, hollow.Task(1000, "stop", "1s")), by...)
				esltest.Statuses(t, jobs, controlplane.UntilRunning, low.Tasks...)
				high := esltest.Submitted(t, jobs, ofPriority(5, c.tasks, hollow.Task(2000)), c.policy, room.Preempt{})
				esltest.Pass(30 * time.Second)
				if n := esltest.HowMany(t, cluster, high.Tasks); n != c.run {
					t.Errorf("%d run, not %d: %q", n, c.run, esltest.TaskWhy(t, cluster, high.Tasks[c.tasks-1]))
				}
				if n := evictions(t, cluster, low.Tasks); n != 2*c.run {
					t.Errorf("%d were evicted, not %d", n, 2*c.run)
				}
				if racks := perRack(t, cluster, high.Tasks); c.racks != nil && !slices.Equal(racks, c.racks) {
					t.Errorf("in the racks run %v, not %v", racks, c.racks)
				}
				stopped(t, jobs, slices.Concat(high.Tasks, low.Tasks)...)
				for _, id := range []string{"p", "o"} {
					if err := jobs.Withdraw(t.Context(), id, true); err != nil {
						t.Error(err)
					}
				}
				esltest.NothingLeft(t, cluster)
			})
		})
	}
}

// TestPreemptWhereGang makes capacity for a gang that is spread evenly over racks, and whose nodes
// a function chooses.
func TestPreemptWhereGang(t *testing.T) {
	for name, policies := range map[string][]esl.Policy{
		"spread":    {place.Spread{Over: esl.Rack}},
		"pack":      {place.Pack{}},
		"objective": {place.Objective{By: place.Load}},
		"both":      {place.Spread{Over: esl.Rack}, place.Objective{By: place.Load}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster, jobs := esltest.OrderedOn(t, hollow.Racks(hollow.Nodes(4, 4), 2))
				low := esltest.Submitted(t, jobs, ofPriority(1, 16, hollow.Task(1000, "stop", "1s")))
				esltest.Statuses(t, jobs, controlplane.UntilRunning, low.Tasks...)
				high := esltest.Submitted(t, jobs, ofPriority(5, 4, hollow.Task(2000)), append(policies, gang.Gang{}, room.Preempt{})...)
				esltest.Pass(30 * time.Second)
				if n, m := esltest.HowMany(t, cluster, high.Tasks), evictions(t, cluster, low.Tasks); n != 4 || m != 8 {
					t.Errorf("%d of 4 run, and %d were evicted, not 8: %q", n, m, esltest.TaskWhy(t, cluster, high.Tasks[0]))
				}
				if racks := perRack(t, cluster, high.Tasks); policies[0].Kind() == (place.Spread{}).Kind() && !slices.Equal(racks, []int{2, 2}) {
					t.Errorf("in the racks run %v", racks)
				}
				stopped(t, jobs, slices.Concat(high.Tasks, low.Tasks)...)
				esltest.NothingLeft(t, cluster)
			})
		})
	}
}

// roomsMade is the number of reservations in progress.
func roomsMade(t *testing.T, c *hollow.Cluster) (n int) {
	t.Helper()
	v, err := c.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range v.Reservations {
		n += map[bool]int{true: 1}[r.Info.V != nil && r.Info.V.Directed()]
	}
	return n
}

// TestPreemptOnlyForWhoWaits gives up the reservation of a task that does not wait any more, and no
// other; and makes reservations for tasks of one priority at a time.
func TestPreemptOnlyForWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, jobs := esltest.Ordered(t, 3)
		low := esltest.Submitted(t, jobs, ofPriority(1, 3, slow()))
		esltest.Statuses(t, jobs, controlplane.UntilRunning, low.Tasks...)
		high := esltest.Submitted(t, jobs, append(ofPriority(5, 2, hollow.Task(3000)), ofPriority(4, 1, hollow.Task(3000))...), room.Preempt{})
		esltest.Pass(5 * time.Second)
		if n := roomsMade(t, cluster); n != 2 {
			t.Errorf("room is made for %d, not 2", n)
		}
		stopped(t, jobs, high.Tasks[0])
		esltest.Pass(2 * time.Second)
		if n := roomsMade(t, cluster); n != 2 {
			t.Errorf("room is made for %d while two wait, not 2", n)
		}
		stopped(t, jobs, high.Tasks[1])
		esltest.Pass(2 * time.Second)
		if n, m := roomsMade(t, cluster), evictions(t, cluster, low.Tasks); n != 1 || m != 0 {
			t.Errorf("room is made for %d while one waits, not 1, and %d have ended", n, m)
		}
		stopped(t, jobs, high.Tasks[2])
		esltest.Pass(2 * time.Second)
		if n := roomsMade(t, cluster); n != 0 {
			t.Errorf("room is made for %d, and no task waits", n)
		}
	})
}

// slow is a task that takes long to end, on a node of its own.
func slow() controlplane.Submission {
	task := hollow.Task(4000, "stop", "5m")
	task.Spec.Grace = time.Hour
	return task
}

// TestPreemptChosen makes capacity where the preemptor's node is not the one that a function would
// choose: the task goes there all the same, because its resource is nowhere else.
func TestPreemptChosen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, jobs := esltest.Ordered(t, 3)
		if err := jobs.Declare(t.Context(), "db", admission.Semaphore{Limit: 1}, ""); err != nil {
			t.Fatal(err)
		}
		holding := esltest.TaskOn("n00", 4000, "stop", "25s")
		holding.Spec.Grace = time.Hour
		holder := esltest.Submitted(t, jobs, ofPriority(1, 1, holding), esl.Use{Name: "db"})
		beside := esltest.Submitted(t, jobs, ofPriority(1, 1, esltest.TaskOn("n01", 1000))) // n02 is the least loaded
		esltest.Statuses(t, jobs, controlplane.UntilRunning, slices.Concat(holder.Tasks, beside.Tasks)...)
		high := esltest.Submitted(t, jobs, ofPriority(5, 1, hollow.Task(2000)), esl.Use{Name: "db"}, place.Objective{By: place.Load}, room.Preempt{})
		esltest.Pass(35 * time.Second)
		if n := esltest.HowMany(t, cluster, high.Tasks); n != 1 {
			t.Errorf("%d of 1 runs: %q", n, esltest.TaskWhy(t, cluster, high.Tasks[0]))
		}
	})
}

// TestPreemptEachByItself hands each task's reservation over as soon as it is complete, even if
// others of the job still wait for a slow victim.
func TestPreemptEachByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, jobs := esltest.Ordered(t, 3)
		slow := esltest.Submitted(t, jobs, ofPriority(1, 1, slow()))
		fast := esltest.Submitted(t, jobs, ofPriority(1, 2, hollow.Task(4000, "stop", "2s")))
		esltest.Statuses(t, jobs, controlplane.UntilRunning, slices.Concat(slow.Tasks, fast.Tasks)...)
		high := esltest.Submitted(t, jobs, ofPriority(5, 3, hollow.Task(3000)), room.Preempt{})
		esltest.Pass(6 * time.Second)
		if n := esltest.HowMany(t, cluster, high.Tasks); n != 2 {
			t.Errorf("%d run while one that makes room is slow to end, not 2", n)
		}
		// A task that does not wait any more ends only its own reservation.
		stopped(t, jobs, high.Tasks[:1]...)
		esltest.Pass(6 * time.Minute)
		if n := esltest.HowMany(t, cluster, high.Tasks); n != 2 || evictions(t, cluster, slices.Concat(slow.Tasks, fast.Tasks)) != 3 {
			t.Errorf("in the end %d of 2 run, and %d were evicted", n, evictions(t, cluster, slices.Concat(slow.Tasks, fast.Tasks)))
		}
		stopped(t, jobs, slices.Concat(high.Tasks, slow.Tasks, fast.Tasks)...)
		esltest.NothingLeft(t, cluster)
	})
}
