package room_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/types"
)

// attaining starts a cluster of nodes of four cores with a declared least-attained: four core hours are the
// service of the first queue, an hour of a node.
func attaining(t *testing.T, nodes int, p room.LeastAttained) *esltest.Sharing {
	t.Helper()
	if p.Threshold == 0 {
		p.Threshold = manifest.Duration(4 * time.Hour)
	}
	return esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(nodes, 4)}, "las", p)
}

// inLAS makes a job compare with the others.
func inLAS() esl.Policy { return esl.Use{Name: "las"} }

// nodeFor is a task that fills a node for a time.
func nodeFor(run time.Duration) []controlplane.Submission {
	return esl.Copies(1, hollow.Task(4000, "run", run.String()))
}

// began waits until a task runs, and returns how long that took.
func began(t *testing.T, s *esltest.Sharing, id string) time.Duration {
	t.Helper()
	at := time.Now()
	esltest.Statuses(t, s.Jobs, controlplane.UntilRunning, id)
	return time.Since(at)
}

// served returns what a pool of a job says, in thousandths; 0 if it has none.
func served(s *esltest.Sharing, job string) types.Quantity {
	p := s.Snapshot().Pool(types.Resolve("d", "las.least-attained."+job+".served"))
	if p == nil {
		return 0
	}
	return p.Capacity()
}

// TestLeastAttained evicts a job that has had much for one that has had nothing, and none that has had
// little. The evicted job comes after those of the first queue, and before nothing else.
func TestLeastAttained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := attaining(t, 1, room.LeastAttained{})
		long := s.Submit(nodeFor(3*time.Hour), inLAS())
		began(t, s, long.Tasks[0])
		esltest.Pass(30 * time.Minute)
		short := s.Submit(nodeFor(10*time.Minute), inLAS())
		if text := esltest.TaskWhy(t, s.Cluster, short.Tasks[0]); !strings.Contains(text, "least-attained: its job has had less than 4h of device time") {
			t.Errorf("why: %q", text)
		}
		if got := began(t, s, short.Tasks[0]); got < 29*time.Minute || got > 31*time.Minute {
			t.Errorf("the short job began after %s, not when the other one had had an hour", got)
		}
		next := s.Submit(nodeFor(10*time.Minute), inLAS())
		esltest.Pass(time.Minute)
		if text := esltest.TaskWhy(t, s.Cluster, long.Tasks[0]); !strings.Contains(text, "least-attained: its job has had 4h of device time, and comes after jobs that have had less than 4h; that ends in 3h5") {
			t.Errorf("why: %q", text)
		}
		if got := began(t, s, next.Tasks[0]); got > 10*time.Minute {
			t.Errorf("the next job of the first queue began after %s", got)
		}
		st := esltest.Statuses(t, s.Jobs, controlplane.UntilEnded, long.Tasks[0])[0]
		if st.Phase != types.Succeeded || st.Attempt != 2 || s.Evicted() != 1 {
			t.Errorf("the long job: %s, attempt %d, %d evictions", st.Phase, st.Attempt, s.Evicted())
		}
		if err := s.Jobs.Withdraw(t.Context(), "las", false); err != nil {
			t.Error(err)
		}
		esltest.NothingLeft(t, s.Cluster)
	})
}

// TestLeastAttainedEvictsNoMore evicts a gang as a whole and nothing beyond what is needed, of several the
// one that has run the shortest; and nothing of a higher priority, of another policy, or without need.
func TestLeastAttainedEvictsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := attaining(t, 5, room.LeastAttained{})
		high := nodeFor(9 * time.Hour)
		high[0].Task.Priority = 1
		other := s.Submit(nodeFor(9 * time.Hour))
		above := s.Submit(high, inLAS())
		halves := esl.Copies(2, hollow.Task(4000, "run", "9h"))
		both := s.Submit(halves, gang.Gang{}, inLAS())
		esltest.Statuses(t, s.Jobs, controlplane.UntilRunning, both.Tasks...)
		esltest.Pass(time.Minute)
		alone := s.Submit(nodeFor(9*time.Hour), inLAS())
		esltest.Statuses(t, s.Jobs, controlplane.UntilRunning, slices.Concat(other.Tasks, above.Tasks, alone.Tasks)...)
		esltest.Pass(2 * time.Hour)
		if got := served(s, alone.Job); got < 4*3600_000 { // it may be lost with its node at any time
			t.Errorf("of a job that came to the second queue %d ms are recorded", got)
		}
		one := s.Submit(nodeFor(time.Hour), inLAS())
		esltest.Statuses(t, s.Jobs, controlplane.UntilRunning, one.Tasks...)
		attempts := func(of controlplane.Launched) (n int) {
			for _, id := range of.Tasks {
				n += s.Snapshot().Task(esltest.IDOf(id)).Info.V.Evict
			}
			return n
		}
		if attempts(alone) != 1 || s.Evicted() != 1 {
			t.Errorf("for a task are evicted: %d, of the single one %d", s.Evicted(), attempts(alone))
		}
		two := s.Submit(esl.Copies(2, hollow.Task(3000, "run", "1h")), gang.Gang{}, inLAS())
		esltest.Statuses(t, s.Jobs, controlplane.UntilRunning, two.Tasks...)
		if attempts(both) != 2 || s.Evicted() != 3 {
			t.Errorf("for a gang are evicted: %d, of the gang %d", s.Evicted(), attempts(both))
		}
		s.Submit(nodeFor(time.Hour), inLAS())
		esltest.Pass(10 * time.Minute)
		if attempts(above)+attempts(other)+attempts(one)+attempts(two) > 0 {
			t.Error("more was evicted")
		}
	})
}

// TestLeastAttainedStarves: a job of the second queue begins while jobs of the first arrive forever, after
// Starve times what it ran.
func TestLeastAttainedStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := attaining(t, 1, room.LeastAttained{Starve: 3})
		long := s.Submit(nodeFor(9*time.Hour), inLAS())
		began(t, s, long.Tasks[0])
		esltest.Pass(time.Hour)
		begin := time.Now()
		for s.Snapshot().Task(esltest.IDOf(long.Tasks[0])).Status.V.Attempt < 2 {
			s.Submit(nodeFor(20*time.Minute), inLAS())
			esltest.Pass(19 * time.Minute) // they arrive faster than they run
			if time.Since(begin) > 5*time.Hour {
				t.Fatal("it waits for ever")
			}
		}
		if waited := time.Since(begin); waited < 3*time.Hour {
			t.Errorf("it waited for %s", waited)
		}
		esltest.Pass(50 * time.Minute) // it has its first hour again: others wait for it
		if st := s.Snapshot().Task(esltest.IDOf(long.Tasks[0])); st.Phase() != types.Running || st.Status.V.Attempt != 2 {
			t.Errorf("it is evicted again after %s: %s", time.Since(begin), st.Phase())
		}
	})
}

// TestLeastAttainedRemembers counts the service of all attempts of a job, of which the view has the last.
func TestLeastAttainedRemembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := attaining(t, 1, room.LeastAttained{})
		long := s.Submit(nodeFor(9*time.Hour), inLAS())
		for attempt := 1; attempt <= 3; attempt++ {
			began(t, s, long.Tasks[0])
			esltest.Pass(15 * time.Minute)
			first := nodeFor(10 * time.Second) // it comes before the evicted task
			first[0].Task.Priority = 5
			block := s.Submit(first)
			if err := s.Jobs.Evict(t.Context(), long.Tasks[0], attempt); err != nil {
				t.Fatal(err)
			}
			esltest.Statuses(t, s.Jobs, controlplane.UntilEnded, block.Tasks[0])
			if got := served(s, long.Job); got < types.Quantity(attempt)*3600_000 || got > types.Quantity(attempt)*3700_000 {
				t.Errorf("after attempt %d it has had %d ms of a core", attempt, got)
			}
		}
		began(t, s, long.Tasks[0])
		second := s.Submit(nodeFor(time.Minute), inLAS())
		if got := began(t, s, second.Tasks[0]); got < 14*time.Minute || got > 16*time.Minute {
			t.Errorf("it is evicted after another %s, not a quarter of an hour", got)
		}
	})
}

// TestLeastAttainedWithinAQueue evicts younger jobs of the same queue for one that has waited for an hour,
// and no older one, though the job has collected a node meanwhile.
func TestLeastAttainedWithinAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := attaining(t, 3, room.LeastAttained{Threshold: manifest.Duration(100 * time.Hour), Older: manifest.Wait(time.Hour)})
		old := s.Submit(nodeFor(9*time.Hour), inLAS())
		first := s.Submit(nodeFor(20*time.Minute), inLAS())
		esltest.Statuses(t, s.Jobs, controlplane.UntilRunning, slices.Concat(old.Tasks, first.Tasks)...)
		esltest.Pass(time.Minute)
		wide := s.Submit(esl.Copies(2, hollow.Task(4000, "run", "10m")), gang.Gang{}, inLAS())
		begin := time.Now()
		esltest.Pass(time.Second)
		young := s.Submit(nodeFor(9*time.Hour), inLAS())
		esltest.Pass(58 * time.Minute)
		if n := s.Evicted(); n != 0 {
			t.Errorf("%d tasks are evicted before the time", n)
		}
		esltest.Statuses(t, s.Jobs, controlplane.UntilRunning, wide.Tasks...)
		if waited := time.Since(begin); waited < time.Hour || waited > 61*time.Minute {
			t.Errorf("it begins after %s", waited)
		}
		if st := esltest.Statuses(t, s.Jobs, controlplane.UntilEnded, young.Tasks...)[0]; st.Attempt != 2 || s.Evicted() != 1 {
			t.Errorf("the younger job ran %d times, and %d tasks are evicted", st.Attempt, s.Evicted())
		}
	})
}

// TestLeastAttainedEvictsTheYoungest evicts the youngest of the second queue, not the one that has run the
// shortest since it was evicted: on a node of its own, and beside the other one.
func TestLeastAttainedEvictsTheYoungest(t *testing.T) {
	for nodes, cores := range map[int]int{2: 4, 1: 2} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { evictsTheYoungest(t, nodes, cores) })
		})
	}
}

func evictsTheYoungest(t *testing.T, nodes, cores int) {
	s := attaining(t, nodes, room.LeastAttained{})
	submit := func(n int, run string, policies ...esl.Policy) controlplane.Launched {
		return s.Submit(esl.Copies(n, hollow.Task(1000*cores, "run", run)), append(policies, inLAS())...)
	}
	old := submit(1, "9h")
	began(t, s, old.Tasks[0])
	esltest.Pass(150 * time.Minute)
	short := submit(2, "1m", gang.Gang{})
	esltest.Statuses(t, s.Jobs, controlplane.UntilEnded, short.Tasks...)
	young := submit(1, "9h")
	esltest.Statuses(t, s.Jobs, controlplane.UntilRunning, slices.Concat(old.Tasks, young.Tasks)...)
	esltest.Pass(3 * time.Hour)
	attempt := func(j controlplane.Launched) int { return s.Snapshot().Task(esltest.IDOf(j.Tasks[0])).Status.V.Attempt }
	for i := range 3 {
		next := submit(1, "10m")
		began(t, s, next.Tasks[0])
		esltest.Statuses(t, s.Jobs, controlplane.UntilEnded, next.Tasks...)
		esltest.Pass(10 * time.Minute)
		if attempt(old) != 2 || attempt(young) != 2+i {
			t.Errorf("after %d jobs: the old one is at attempt %d, the young one at %d", i+1, attempt(old), attempt(young))
		}
	}
}

// TestLeastAttainedSpares leaves an evicted task its time before it is evicted again, however many arrive.
func TestLeastAttainedSpares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := attaining(t, 1, room.LeastAttained{Spare: manifest.Wait(10 * time.Minute)})
		long := s.Submit(nodeFor(9*time.Hour), inLAS())
		began(t, s, long.Tasks[0])
		esltest.Pass(time.Hour)
		begin := time.Now()
		for time.Since(begin) < 2*time.Hour {
			short := s.Submit(nodeFor(time.Second), inLAS())
			esltest.Statuses(t, s.Jobs, controlplane.UntilEnded, short.Tasks...)
			esltest.Statuses(t, s.Jobs, controlplane.UntilRunning, long.Tasks...)
		}
		if n := s.Evicted(); n < 10 || n > 13 {
			t.Errorf("it is evicted %d times in two hours, with 10m between", n)
		}
	})
}

// TestLeastAttainedRefused names what is wrong.
func TestLeastAttainedRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := attaining(t, 1, room.LeastAttained{})
		for want, p := range map[string]room.LeastAttained{
			"threshold: -1s is negative": {Threshold: manifest.Duration(-time.Second)},
			"starve: -1 is not within":   {Starve: -1},
		} {
			if err := s.Jobs.Declare(t.Context(), "bad", p, ""); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		}
		own := nodeFor(time.Second)
		own[0].Task.Scheduler = "mine"
		for want, c := range map[string]struct {
			tasks    []controlplane.Submission
			policies []esl.Policy
		}{
			"tasks[0].scheduler":       {own, []esl.Policy{inLAS()}},
			"as: \"x\"":                {nodeFor(time.Second), []esl.Policy{esl.Use{Name: "las", As: "x"}}},
			"least-attained is shared": {nodeFor(time.Second), []esl.Policy{room.LeastAttained{}}},
			"the job uses las twice":   {nodeFor(time.Second), []esl.Policy{inLAS(), inLAS()}},
		} {
			_, err := s.Jobs.Submit(t.Context(), controlplane.Job{Name: "job", Tasks: c.tasks}, c.policies...)
			if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		}
	})
}

// TestLeastAttainedOfAWideJob: a job with more tasks than fit stays in the second queue while some of them
// run, however long the others have waited.
func TestLeastAttainedOfAWideJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := attaining(t, 1, room.LeastAttained{})
		s.Submit(esl.Copies(20, hollow.Task(4000, "run", "30m")), inLAS())
		esltest.Pass(2 * time.Hour)
		short := s.Submit(nodeFor(10*time.Minute), inLAS())
		if after := began(t, s, short.Tasks[0]); after > 31*time.Minute {
			t.Errorf("a new job begins after %s", after)
		}
	})
}
