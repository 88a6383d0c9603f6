package esl_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// small returns many tasks of a quarter of a core, of so many seconds.
func small(n, seconds int) []controlplane.Submission {
	return esl.Copies(n, hollow.Task(250, "run", fmt.Sprintf("%ds", seconds)))
}

// beginsWithin checks when the task of a job has begun, after now.
func (s *sharing) beginsWithin(job controlplane.Launched, most time.Duration) {
	s.t.Helper()
	from := time.Now()
	time.Sleep(most)
	at := s.begun(job)
	if len(at) != len(job.Tasks) {
		s.t.Errorf("after %s %d of %d have begun: %s", most, len(at), len(job.Tasks), s.why(job.Tasks[len(job.Tasks)-1]))
		return
	}
	s.t.Logf("begun after %s", at[0].Sub(from))
}

// TestFairShareOfTheLarge has the share of a user for a task that is larger than anything
// that becomes free at once among small ones: it is collected where it fits, and the cluster
// stays as good as full.
func TestFairShareOfTheLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(4, 4)}, "teams", esl.FairShare{Anyone: 1, Over: []string{"cpu"}})
		others := []controlplane.Launched{s.submit(small(900, 2), as("a")), s.submit(small(700, 3), as("b"))}
		time.Sleep(10 * time.Second)
		large := s.submit(esl.Copies(1, hollow.Task(2000, "run", "20s")), as("c"))
		why := ""
		for i := 0; i < 40 && !strings.Contains(why, "c has its share, and no node has room for it: what becomes free on n0"); i++ {
			time.Sleep(100 * time.Millisecond)
			why = s.why(large.Tasks[0])
		}
		if !strings.Contains(why, " of 2 cpu by now") {
			t.Errorf("why: %s", why)
		}
		s.StopKeeping() // its successor goes on
		s.Keep()
		s.beginsWithin(large, 4*time.Second)
		if u := s.used(16, 10*time.Second); u < 0.99 {
			t.Errorf("%.3f of the cluster is used", u)
		}
		s.stop(append(others, large)...)
		s.nothingLeft()
	})
}

// TestFairShareOfManyLarge has a user whose tasks are all larger than those of the others: he
// has what he is entitled to in the mean, and nothing lies idle.
func TestFairShareOfManyLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(3, 4)}, "teams", esl.FairShare{Anyone: 1, Over: []string{"cpu"}})
		jobs := []controlplane.Launched{s.submit(small(700, 2), as("a")), s.submit(small(500, 3), as("b"))}
		time.Sleep(5 * time.Second)
		var tasks []controlplane.Submission
		for i := range 60 {
			tasks = append(tasks, hollow.Task(2000, "run", fmt.Sprintf("%dms", 1500+(i*370)%2000)))
		}
		large := s.submit(tasks, as("c"))
		time.Sleep(10 * time.Second)
		began := s.mean(large, time.Second)
		u := s.used(12, 30*time.Second)
		if got := 2 * (s.mean(large, time.Second) - began) / 30; got < 3.4 || got > 4.6 {
			t.Errorf("c has %.2f cores in the mean, want 4", got)
		}
		if u < 0.95 {
			t.Errorf("%.3f of the cluster is used", u)
		}
		s.stop(append(jobs, large)...)
		s.nothingLeft()
	})
}

// TestFairShareOfTheLargeElsewhere collects where something ends, not where most is free: on
// the other node others run for ever.
func TestFairShareOfTheLargeElsewhere(t *testing.T) {
	for _, before := range []time.Duration{0, 20 * time.Second} { // it is not known at first who runs for ever
		t.Run(before.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 4)}, "teams", esl.FairShare{Anyone: 1, Over: []string{"cpu"}})
				long := hollow.Task(500)
				long.Task.Requests = long.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"node/n00": 1}))
				s.submit(esl.Copies(5, long), as("a"))
				time.Sleep(before)
				s.submit(small(500, 2), as("b"))
				time.Sleep(3 * time.Second)
				s.beginsWithin(s.submit(esl.Copies(1, hollow.Task(2500)), as("c")), 30*time.Second)
			})
		})
	}
}

// TestFairShareOfTheLargeReclaims evicts small tasks that do not end where room is made for a
// large one: they find a place where its share was free in pieces.
func TestFairShareOfTheLargeReclaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := esl.FairShare{Anyone: 1, Over: []string{"cpu"}, Reclaim: manifest.Duration(10 * time.Second)}
		s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(4, 4)}, "teams", p)
		a, b := s.submit(esl.Copies(40, hollow.Task(250)), as("a")), s.submit(esl.Copies(40, hollow.Task(250)), as("b"))
		time.Sleep(30 * time.Second)
		large := s.submit(esl.Copies(1, hollow.Task(3000)), as("c"))
		s.beginsWithin(large, 30*time.Second)
		time.Sleep(5 * time.Second)
		s.shares("cpu", 0, map[string]float64{"a": 6.5, "b": 6.5, "c": 3})
		time.Sleep(time.Minute)
		before := s.evicted()
		time.Sleep(2 * time.Minute) // and so it stays
		if n := s.evicted(); n != before {
			t.Errorf("%d more were evicted later", n-before)
		}
		s.stop(a, b, large)
		s.nothingLeft()
	})
}
