package room_test

import (
	"slices"
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
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/types"
)

// ofPriority gives copies of a task a priority.
func ofPriority(priority, n int, task controlplane.Submission) []controlplane.Submission {
	task.Task.Priority = priority
	return esl.Copies(n, task)
}

// evictions returns how many attempts of tasks have ended by an eviction.
func evictions(t *testing.T, c *hollow.Cluster, ids []string) (n int) {
	t.Helper()
	for _, a := range attempts(t, c, ids) {
		n += max(0, a-1)
	}
	v, err := c.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if task := v.Task(cluster.ID{Namespace: "d", ID: id}); task.Status.V != nil && task.Phase() == types.Pending {
			n++
		}
	}
	return n
}

// TestPreempt evicts as few as needed, of the lowest priority, the youngest first, and none for a
// task that would not fit even then; no other task gets their freed capacity; and they run again
// when they fit, which counts as no failure.
func TestPreempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 2) // of four cores each
		low := esltest.Submitted(t, jobs, ofPriority(1, 4, hollow.Task(1000, "stop", "3s")))
		esltest.Pass(3 * time.Second)
		middle := esltest.Submitted(t, jobs, ofPriority(2, 4, hollow.Task(1000, "stop", "3s")))
		esltest.Pass(3 * time.Second)

		never := esltest.Submitted(t, jobs, ofPriority(9, 1, hollow.Task(4500)), room.Preempt{})
		equal := esltest.Submitted(t, jobs, ofPriority(1, 1, hollow.Task(1000)), room.Preempt{})
		esltest.Pass(20 * time.Second)
		if n := evictions(t, c, slices.Concat(low.Tasks, middle.Tasks)); n != 0 {
			t.Fatalf("%d were evicted for what does not fit on any node, or is of no higher priority", n)
		}
		if text := esltest.TaskWhy(t, c, never.Tasks[0]); !strings.Contains(text, "it would not fit even if") {
			t.Errorf("why: %q", text)
		}
		stopped(t, jobs, slices.Concat(never.Tasks, equal.Tasks)...)

		small := esltest.Submitted(t, jobs, ofPriority(8, 4, hollow.Task(500))) // without the policy
		high := esltest.Submitted(t, jobs, ofPriority(3, 1, hollow.Task(2000, "run", "30s")), room.Preempt{})
		esltest.Pass(2500 * time.Millisecond)
		if text := esltest.TaskWhy(t, c, high.Tasks[0]); !strings.Contains(text, "room is made for it on n00, for 2s so far, by ending ") {
			t.Errorf("why: %q", text)
		}
		esltest.Pass(5 * time.Second)
		if s := esltest.Statuses(t, jobs, controlplane.UntilBound, high.Tasks...)[0]; s.Attempt != 1 {
			t.Errorf("it is %+v", s)
		}
		if n, m := evictions(t, c, low.Tasks), evictions(t, c, middle.Tasks); n != 2 || m != 0 {
			t.Errorf("%d of low and %d of middle priority were evicted, not 2 and 0", n, m)
		}
		if n := esltest.HowMany(t, c, small.Tasks); n != 0 {
			t.Errorf("%d others run in the room that was made", n)
		}
		v, err := c.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range low.Tasks {
			s := v.Task(esltest.IDOf(id)).Status.V
			if s.Phase == types.Pending && (!strings.Contains(s.Reason, "evicted for job job, of priority 3") || s.Failures != 0) {
				t.Errorf("%s is %+v", id, s.Full())
			}
		}
		stopped(t, jobs, small.Tasks...)
		esltest.Statuses(t, jobs, controlplane.UntilEnded, high.Tasks...)
		esltest.Pass(3 * time.Second)
		if n := esltest.HowMany(t, c, slices.Concat(low.Tasks, middle.Tasks)); n != 8 {
			t.Errorf("%d of 8 run again", n)
		}
		stopped(t, jobs, slices.Concat(low.Tasks, middle.Tasks)...)
		esltest.NothingLeft(t, c)
	})
}

// clientOf returns a client of a namespace.
func clientOf(t *testing.T, c *hollow.Cluster, ns string) *esl.Client {
	t.Helper()
	jobs, err := c.Client(ns)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// TestPreemptGangs evicts a gang as a whole, for a gang as a whole, which is bound at one revision;
// a victim that would help only in part stays; and the evicted gang runs again whole.
func TestPreemptGangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 3)
		single := esltest.Submitted(t, jobs, ofPriority(3, 2, hollow.Task(4000)), place.Apart{})
		esltest.Pass(time.Second)
		small := esltest.Submitted(t, jobs, ofPriority(1, 4, hollow.Task(1000, "stop", "2s")), gang.Gang{Loss: esl.Restart})
		esltest.Statuses(t, jobs, controlplane.UntilRunning, small.Tasks...)
		large := esltest.Submitted(t, jobs, ofPriority(2, 3, hollow.Task(2000)), gang.Gang{}, room.Preempt{})
		esltest.Pass(10 * time.Second)
		if n := evictions(t, c, slices.Concat(single.Tasks, small.Tasks)); n != 0 {
			t.Fatalf("%d were evicted for a gang that does not fit then either", n)
		}
		stopped(t, jobs, large.Tasks...)

		high := esltest.Submitted(t, jobs, ofPriority(2, 2, hollow.Task(500)), gang.Gang{}, room.Preempt{})
		esltest.Pass(2500 * time.Millisecond)
		if n := esltest.HowMany(t, c, high.Tasks); n != 0 {
			t.Errorf("%d of the gang run before all that make room have ended", n)
		}
		esltest.Pass(5 * time.Second)
		s := esltest.Statuses(t, jobs, controlplane.UntilRunning, high.Tasks...)
		if s[0].Bound != s[1].Bound {
			t.Errorf("bound at %d and %d", s[0].Bound, s[1].Bound)
		}
		if a := attempts(t, c, small.Tasks); !slices.Equal(a, []int{1, 1, 1, 1}) || esltest.HowMany(t, c, small.Tasks) != 0 {
			t.Errorf("the gang is at attempts %v, and %d of it run: it goes as a whole", a, esltest.HowMany(t, c, small.Tasks))
		}
		stopped(t, jobs, high.Tasks...)
		esltest.Statuses(t, jobs, controlplane.UntilRunning, small.Tasks...)
		esltest.Pass(2 * time.Second)
		if a := attempts(t, c, small.Tasks); !slices.Equal(a, []int{2, 2, 2, 2}) {
			t.Errorf("the gang is at attempts %v", a)
		}
		stopped(t, jobs, slices.Concat(small.Tasks, single.Tasks)...)
		esltest.NothingLeft(t, c)
	})
}

// TestPreemptAlone evicts a gang with onLoss alone as a whole too: its reservation is not free
// before.
func TestPreemptAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 1)
		small := esltest.Submitted(t, jobs, ofPriority(1, 4, hollow.Task(1000)), gang.Gang{Loss: esl.Alone})
		esltest.Statuses(t, jobs, controlplane.UntilRunning, small.Tasks...)
		high := esltest.Submitted(t, jobs, ofPriority(2, 1, hollow.Task(4000, "run", "20s")), room.Preempt{})
		esltest.Statuses(t, jobs, controlplane.UntilEnded, high.Tasks...)
		esltest.Statuses(t, jobs, controlplane.UntilRunning, small.Tasks...)
		stopped(t, jobs, small.Tasks...)
		esltest.NothingLeft(t, c)
	})
}

// TestPreemptSpares evicts no task of another namespace, of a job that stays, or that was evicted
// and has not run for long since. The victims of one preemptor are not another's.
func TestPreemptSpares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 3)
		others := esltest.Submitted(t, clientOf(t, c, "e"), ofPriority(0, 1, hollow.Task(4000)))
		esltest.Pass(time.Second)
		stays := esltest.Submitted(t, jobs, ofPriority(0, 1, hollow.Task(4000)), room.Stay{})
		esltest.Pass(time.Second)
		low := esltest.Submitted(t, jobs, ofPriority(1, 4, hollow.Task(1000, "stop", "2s")))
		esltest.Statuses(t, jobs, controlplane.UntilRunning, low.Tasks...)
		high := esltest.Submitted(t, jobs, ofPriority(5, 1, hollow.Task(2000, "run", "10s")), room.Preempt{})
		higher := esltest.Submitted(t, jobs, ofPriority(6, 1, hollow.Task(2000, "run", "10s")), room.Preempt{})
		esltest.Pass(5 * time.Second)
		if n, m := evictions(t, c, low.Tasks), esltest.HowMany(t, c, slices.Concat(high.Tasks, higher.Tasks)); n != 4 || m != 2 {
			t.Errorf("%d of low priority were evicted, and %d of 2 run", n, m)
		}
		esltest.Statuses(t, jobs, controlplane.UntilEnded, slices.Concat(high.Tasks, higher.Tasks)...)
		esltest.Statuses(t, jobs, controlplane.UntilRunning, low.Tasks...)
		again := esltest.Submitted(t, jobs, ofPriority(5, 1, hollow.Task(1000)), room.Preempt{Spare: manifest.Wait(30 * time.Second)})
		esltest.Pass(20 * time.Second)
		if n := evictions(t, c, low.Tasks); n != 4 {
			t.Errorf("%d more of low priority were evicted, 20 s after they had been", n-4)
		}
		esltest.Pass(25 * time.Second)
		if n, m := evictions(t, c, low.Tasks), esltest.HowMany(t, c, again.Tasks); n != 5 || m != 1 {
			t.Errorf("%d of low priority were evicted, %d of 1 run", n, m)
		}
		if a := slices.Concat(attempts(t, c, stays.Tasks)); a[0] != 1 {
			t.Errorf("who is to stay is at attempt %d", a[0])
		}
		v, err := c.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s := v.Task(cluster.ID{Namespace: "e", ID: others.Tasks[0]}).Status.V; s.Attempt != 1 || s.Phase != types.Running {
			t.Errorf("who is of another namespace is %+v", s.Full())
		}
	})
}

// TestPreemptBeside makes capacity for two tasks on one node, from different victims, at the same
// time.
func TestPreemptBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 1)
		low := esltest.Submitted(t, jobs, ofPriority(1, 4, hollow.Task(1000, "stop", "5s")))
		esltest.Statuses(t, jobs, controlplane.UntilRunning, low.Tasks...)
		first := esltest.Submitted(t, jobs, ofPriority(2, 1, hollow.Task(2000)), room.Preempt{})
		esltest.Pass(2 * time.Second)
		second := esltest.Submitted(t, jobs, ofPriority(3, 1, hollow.Task(2000)), room.Preempt{})
		esltest.Pass(7500 * time.Millisecond)
		if n := esltest.HowMany(t, c, slices.Concat(first.Tasks, second.Tasks)); n != 2 || evictions(t, c, low.Tasks) != 4 {
			t.Errorf("%d of 2 run, and %d were evicted", n, evictions(t, c, low.Tasks))
		}
		stopped(t, jobs, slices.Concat(first.Tasks, second.Tasks, low.Tasks)...)
		esltest.NothingLeft(t, c)
	})
}

// TestPreemptGivesUp gives up what is free by then when a victim does not end in time, and evicts
// no others.
func TestPreemptGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 1)
		fast := esltest.Submitted(t, jobs, ofPriority(1, 2, hollow.Task(1000, "stop", "1s")))
		slow := esltest.Submitted(t, jobs, ofPriority(1, 2, hollow.Task(1000, "stop", "9s")))
		esltest.Statuses(t, jobs, controlplane.UntilRunning, slices.Concat(fast.Tasks, slow.Tasks)...)
		high := esltest.Submitted(t, jobs, ofPriority(2, 1, hollow.Task(4000)), room.Preempt{Within: manifest.Duration(5 * time.Second)})
		esltest.Pass(5 * time.Second)
		if made(t, c) == "" {
			t.Error("no room is made")
		}
		esltest.Pass(2500 * time.Millisecond)
		if on := made(t, c); on != "" || esltest.HowMany(t, c, fast.Tasks) != 2 {
			t.Errorf("room is made on %q, and %d of 2 that had ended run again", on, esltest.HowMany(t, c, fast.Tasks))
		}
		stopped(t, jobs, slices.Concat(high.Tasks, fast.Tasks, slow.Tasks)...)
		esltest.NothingLeft(t, c)
	})
}

// made returns the node where capacity is made, "" if none.
func made(t *testing.T, c *hollow.Cluster) string {
	t.Helper()
	v, err := c.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range v.Reservations {
		return r.Info.V.Bundles[0].Node
	}
	return ""
}

// TestPreemptEnds gives up made capacity when no task waits for it any more, or a node is lost:
// others get what was free there, and no more are evicted.
func TestPreemptEnds(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, c *hollow.Cluster, jobs *esl.Client, high []string){
		"stopped": func(t *testing.T, _ *hollow.Cluster, jobs *esl.Client, high []string) { stopped(t, jobs, high...) },
		"fits": func(t *testing.T, c *hollow.Cluster, jobs *esl.Client, high []string) {
			c.Add(hollow.Node{Name: "more", Capacity: map[string]types.Quantity{"cpu": 2000}})
			esltest.Statuses(t, jobs, controlplane.UntilRunning, high...)
		},
		"cordoned": func(t *testing.T, c *hollow.Cluster, jobs *esl.Client, high []string) {
			on := made(t, c)
			if _, err := jobs.Cordon(t.Context(), on, types.Cordon{}); err != nil {
				t.Fatal(err)
			}
			if s := esltest.Statuses(t, jobs, controlplane.UntilRunning, high...)[0]; s.Node == on {
				t.Errorf("it is on %s", on)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, jobs := esltest.Ordered(t, 2)
				low := esltest.Submitted(t, jobs, ofPriority(1, 8, hollow.Task(1000, "stop", "10s")))
				esltest.Pass(time.Second)
				high := esltest.Submitted(t, jobs, ofPriority(2, 1, hollow.Task(2000)), room.Preempt{})
				esltest.Pass(3 * time.Second)
				if made(t, c) == "" {
					t.Error("no room is made")
				}
				end(t, c, jobs, high.Tasks)
				esltest.Pass(2 * time.Second)
				if on := made(t, c); on != "" {
					t.Errorf("room is made on %s still", on)
				}
				esltest.Pass(25 * time.Second)
				want := 2
				if name == "cordoned" {
					want = 4
				}
				if a := sum(attempts(t, c, low.Tasks)) + 8 - esltest.HowMany(t, c, low.Tasks); a > 8+want {
					t.Errorf("%d were evicted", a-8)
				}
				stopped(t, jobs, slices.Concat(low.Tasks, high.Tasks)...)
				esltest.NothingLeft(t, c)
			})
		})
	}
}

// TestPreemptKilled goes on after a kill of the process that runs the policy, at each step.
func TestPreemptKilled(t *testing.T) {
	for at := range 16 {
		synctest.Test(t, func(t *testing.T) {
			c, jobs := esltest.Ordered(t, 1)
			low := esltest.Submitted(t, jobs, ofPriority(1, 4, hollow.Task(1000, "stop", "500ms")))
			esltest.Pass(time.Second)
			high := esltest.Submitted(t, jobs, ofPriority(2, 1, hollow.Task(3000, "run", "10s")), room.Preempt{})
			begin := time.Now()
			for time.Since(begin) < 5*time.Second {
				// Each call, transaction and end is somewhere between two of these.
				esltest.Pass(time.Duration(at*7+40) * time.Millisecond)
				c.StopKeeping()
				c.Keep()
			}
			esltest.Statuses(t, jobs, controlplane.UntilEnded, high.Tasks...)
			esltest.Pass(3 * time.Second)
			if a := attempts(t, c, low.Tasks); sum(a) != 4+3 {
				t.Errorf("they are at attempts %v", a)
			}
			stopped(t, jobs, low.Tasks...)
			esltest.NothingLeft(t, c)
		})
	}
}

// TestPreemptQuota evicts holders of an exhausted quota, on any node.
func TestPreemptQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 2)
		admin := clientOf(t, c, "admin")
		if _, err := admin.SetResource(t.Context(), "cores", 4000, controlplane.InCluster(), controlplane.SetOptions{Declare: true}); err != nil {
			t.Fatal(err)
		}
		if err := esltest.Put(c.Store, controlplane.NamespaceKey("d"), &types.Namespace{Quotas: []types.Quota{{Resource: types.CPU, Pool: "admin:cores"}}}); err != nil {
			t.Fatal(err)
		}
		low := esltest.Submitted(t, jobs, ofPriority(1, 4, hollow.Task(1000, "stop", "1s")), place.Spread{Over: esl.Node})
		esltest.Statuses(t, jobs, controlplane.UntilRunning, low.Tasks...)
		high := esltest.Submitted(t, jobs, ofPriority(2, 1, hollow.Task(2000)), room.Preempt{})
		esltest.Statuses(t, jobs, controlplane.UntilRunning, high.Tasks...)
		esltest.Pass(3 * time.Second)
		if n := esltest.HowMany(t, c, low.Tasks); n != 2 {
			t.Errorf("%d of 4 run", n)
		}
	})
}
