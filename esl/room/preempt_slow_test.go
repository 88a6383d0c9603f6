package room_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/types"
)

// ending is a task of one core that takes so long to end.
func ending(takes string) controlplane.Submission {
	task := hollow.Task(1000, "stop", takes)
	task.Spec.Grace = time.Hour
	return task
}

// TestPreemptForGangThatWaitedLong: a gang that has waited for long accumulates free capacity by
// itself, but not while capacity is made for it; it gives back what it has when that begins.
func TestPreemptForGangThatWaitedLong(t *testing.T) {
	for name, c := range map[string]struct {
		low              controlplane.Submission
		n, want, evicted int // of low priority: how many, how many are left, and evictions
		before           func(t *testing.T, c *hollow.Cluster, jobs *esl.Client, low []string)
	}{
		"slow to end": {ending("60s"), 12, 8, 4, nil},
		"spared first": {hollow.Task(1000, "stop", "1s"), 11, 8, 11 + 3, func(t *testing.T, _ *hollow.Cluster, jobs *esl.Client, low []string) {
			first := esltest.Submitted(t, jobs, ofPriority(5, 3, hollow.Task(4000, "run", "5s")), gang.Gang{}, room.Preempt{})
			esltest.Statuses(t, jobs, controlplane.UntilEnded, first.Tasks...)
			esltest.Statuses(t, jobs, controlplane.UntilRunning, low...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster, jobs := esltest.Ordered(t, 3)
				low := esltest.Submitted(t, jobs, ofPriority(1, c.n, c.low))
				esltest.Statuses(t, jobs, controlplane.UntilRunning, low.Tasks...)
				if c.before != nil {
					c.before(t, cluster, jobs, low.Tasks)
				}
				high := esltest.Submitted(t, jobs, ofPriority(5, 2, hollow.Task(2000)), gang.Gang{}, room.Preempt{})
				esltest.Pass(100 * time.Second)
				if n, m := esltest.HowMany(t, cluster, high.Tasks), esltest.HowMany(t, cluster, low.Tasks); n != 2 || m != c.want {
					t.Errorf("%d of 2 run, and %d of low priority, not %d", n, m, c.want)
				}
				if n := evictions(t, cluster, low.Tasks); n != c.evicted {
					t.Errorf("%d were evicted, not %d", n, c.evicted)
				}
				stopped(t, jobs, slices.Concat(high.Tasks, low.Tasks)...)
				esltest.NothingLeft(t, cluster)
			})
		})
	}
}

// TestPreemptAccumulates makes a gang of lower priority give back what it has accumulated, as a
// whole; none is evicted for that, and the gang waits on.
func TestPreemptAccumulates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, jobs := esltest.Ordered(t, 2)
		above := esltest.Submitted(t, jobs, ofPriority(9, 1, hollow.Task(3000, "run", "3m")))
		low := esltest.Submitted(t, jobs, ofPriority(1, 1, hollow.Task(1000)))
		esltest.Statuses(t, jobs, controlplane.UntilRunning, slices.Concat(above.Tasks, low.Tasks)...)
		gang := esltest.Submitted(t, jobs, ofPriority(3, 2, hollow.Task(3000)), gang.Gang{})
		esltest.Pass(40 * time.Second)
		if text := esltest.TaskWhy(t, cluster, gang.Tasks[0]); !strings.Contains(text, "and has collected what becomes free for") {
			t.Fatalf("why: %q", text)
		}
		equal := esltest.Submitted(t, jobs, ofPriority(3, 1, hollow.Task(4000)), room.Preempt{})
		esltest.Pass(10 * time.Second)
		if n := esltest.HowMany(t, cluster, equal.Tasks); n != 0 {
			t.Errorf("%d of the same priority run", n)
		}
		stopped(t, jobs, equal.Tasks...)
		high := esltest.Submitted(t, jobs, ofPriority(5, 1, hollow.Task(3000, "run", "20s")), room.Preempt{})
		esltest.Pass(5 * time.Second)
		if n, a := esltest.HowMany(t, cluster, high.Tasks), attempts(t, cluster, low.Tasks); n != 1 || a[0] != 1 {
			t.Errorf("%d of 1 runs, and who need not go is at attempt %d: %q", n, a[0], esltest.TaskWhy(t, cluster, high.Tasks[0]))
		}
		esltest.Pass(25 * time.Second)
		if text := esltest.TaskWhy(t, cluster, gang.Tasks[0]); !strings.Contains(text, "and has collected what becomes free for") {
			t.Errorf("why: %q", text)
		}
		esltest.Statuses(t, jobs, controlplane.UntilRunning, gang.Tasks...)
		stopped(t, jobs, slices.Concat(gang.Tasks, low.Tasks)...)
		esltest.NothingLeft(t, cluster)
	})
}

// TestPreemptLargeGang evicts a gang too large for one transaction as a whole, also one with onLoss
// alone: it runs again whole.
func TestPreemptLargeGang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, jobs := esltest.Ordered(t, 1)
		gang := esltest.Submitted(t, jobs, ofPriority(1, 90, hollow.Task(40, "stop", "1s")), gang.Gang{Loss: esl.Alone})
		esltest.Statuses(t, jobs, controlplane.UntilRunning, gang.Tasks...)
		high := esltest.Submitted(t, jobs, ofPriority(5, 1, hollow.Task(1000, "run", "10s")), room.Preempt{})
		esltest.Pass(6 * time.Second)
		if n, m := esltest.HowMany(t, cluster, high.Tasks), esltest.HowMany(t, cluster, gang.Tasks); n != 1 || m != 0 {
			t.Errorf("%d of 1 runs, and %d of the gang", n, m)
		}
		esltest.Pass(30 * time.Second)
		if a := attempts(t, cluster, gang.Tasks); esltest.HowMany(t, cluster, gang.Tasks) != 90 || sum(a) != 180 {
			t.Errorf("%d of 90 run again, at attempts %v", esltest.HowMany(t, cluster, gang.Tasks), a)
		}
		stopped(t, jobs, gang.Tasks...)
		esltest.NothingLeft(t, cluster)
	})
}

// TestPreemptBesideHopeless makes capacity for a task that can be helped, though one of higher
// priority in the same job cannot.
func TestPreemptBesideHopeless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, jobs := esltest.Ordered(t, 2)
		low := esltest.Submitted(t, jobs, ofPriority(1, 8, hollow.Task(1000, "stop", "1s")))
		esltest.Statuses(t, jobs, controlplane.UntilRunning, low.Tasks...)
		high := esltest.Submitted(t, jobs, append(ofPriority(9, 1, hollow.Task(9000)), ofPriority(5, 1, hollow.Task(1000))...), room.Preempt{})
		esltest.Pass(10 * time.Second)
		if n := esltest.HowMany(t, cluster, high.Tasks[1:]); n != 1 || evictions(t, cluster, low.Tasks) != 1 {
			t.Errorf("%d of 1 runs, and %d were evicted", n, evictions(t, cluster, low.Tasks))
		}
		stopped(t, jobs, slices.Concat(high.Tasks, low.Tasks)...)
	})
}

// TestPreemptLeaving waits for tasks that leave anyway, and says so, but no longer than for its
// victims: then others go.
func TestPreemptLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, jobs := esltest.Ordered(t, 1)
		leaves := esltest.Submitted(t, jobs, ofPriority(9, 2, ending("50m")))
		low := esltest.Submitted(t, jobs, ofPriority(1, 2, ending("3s")))
		esltest.Statuses(t, jobs, controlplane.UntilRunning, slices.Concat(leaves.Tasks, low.Tasks)...)
		for _, id := range leaves.Tasks {
			if err := jobs.Stop(t.Context(), id, controlplane.StopOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		high := esltest.Submitted(t, jobs, ofPriority(5, 1, hollow.Task(2000)), room.Preempt{})
		esltest.Submitted(t, jobs, ofPriority(8, 1, hollow.Task(500))) // would take capacity that is not reserved
		esltest.Pass(5 * time.Minute)
		if text := esltest.TaskWhy(t, cluster, high.Tasks[0]); !strings.Contains(text, "it fits when the tasks that are leaving have ended") || evictions(t, cluster, low.Tasks) != 0 {
			t.Errorf("after 5 minutes %d were evicted; why: %q", evictions(t, cluster, low.Tasks), text)
		}
		esltest.Pass(6 * time.Minute)
		if n := esltest.HowMany(t, cluster, high.Tasks); n != 1 || evictions(t, cluster, low.Tasks) != 2 {
			t.Errorf("after 11 minutes %d of 1 runs, and %d were evicted", n, evictions(t, cluster, low.Tasks))
		}
	})
}

// TestPreemptOwnScheduler refuses a task that the scheduler does not place.
func TestPreemptOwnScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, jobs := esltest.Ordered(t, 1)
		task := hollow.Task(1000)
		task.Task.Scheduler = "mine"
		_, err := jobs.Submit(t.Context(), controlplane.Job{Tasks: []controlplane.Submission{task}}, room.Preempt{})
		if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), `tasks[0].scheduler: is "mine"`) {
			t.Error(err)
		}
	})
}
