package share_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/types"
)

// small returns many tasks of a quarter of a core, of so many seconds.
func small(n, seconds int) []controlplane.Submission {
	return esl.Copies(n, hollow.Task(250, "run", fmt.Sprintf("%ds", seconds)))
}

// TestFairShareOfTheLarge keeps the share of a user for a task larger than any fragment among small
// tasks: a reservation collects it where it fits, and the cluster stays almost full.
func TestFairShareOfTheLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(4, 4)}, "teams", share.FairShare{Anyone: 1, Over: []string{"cpu"}})
		others := []controlplane.Launched{s.Submit(small(900, 2), esltest.As("a")), s.Submit(small(700, 3), esltest.As("b"))}
		time.Sleep(10 * time.Second)
		large := s.Submit(esl.Copies(1, hollow.Task(2000, "run", "20s")), esltest.As("c"))
		why := ""
		for i := 0; i < 40 && !strings.Contains(why, "c has its share, and no node has room for it: what becomes free on n0"); i++ {
			time.Sleep(100 * time.Millisecond)
			why = s.Why(large.Tasks[0])
		}
		if !strings.Contains(why, " of 2 cpu by now") {
			t.Errorf("why: %s", why)
		}
		s.StopKeeping() // its successor goes on
		s.Keep()
		s.BeginsWithin(large, 4*time.Second)
		if u := s.Used(16, 10*time.Second); u < 0.99 {
			t.Errorf("%.3f of the cluster is used", u)
		}
		s.Stop(append(others, large)...)
		s.NothingLeft()
	})
}

// TestFairShareOfManyLarge has a user whose tasks are all larger than those of the others: it gets
// its share on average, and nothing lies idle.
func TestFairShareOfManyLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(3, 4)}, "teams", share.FairShare{Anyone: 1, Over: []string{"cpu"}})
		jobs := []controlplane.Launched{s.Submit(small(700, 2), esltest.As("a")), s.Submit(small(500, 3), esltest.As("b"))}
		time.Sleep(5 * time.Second)
		var tasks []controlplane.Submission
		for i := range 60 {
			tasks = append(tasks, hollow.Task(2000, "run", fmt.Sprintf("%dms", 1500+(i*370)%2000)))
		}
		large := s.Submit(tasks, esltest.As("c"))
		time.Sleep(10 * time.Second)
		began := s.Mean(large, time.Second)
		u := s.Used(12, 30*time.Second)
		if got := 2 * (s.Mean(large, time.Second) - began) / 30; got < 3.4 || got > 4.6 {
			t.Errorf("c has %.2f cores in the mean, want 4", got)
		}
		if u < 0.95 {
			t.Errorf("%.3f of the cluster is used", u)
		}
		s.Stop(append(jobs, large)...)
		s.NothingLeft()
	})
}

// TestFairShareOfTheLargeElsewhere collects where tasks end, not where most is free: on the other
// node tasks run for ever.
func TestFairShareOfTheLargeElsewhere(t *testing.T) {
	for _, before := range []time.Duration{0, 20 * time.Second} { // at first it is unknown which run for ever
		t.Run(before.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 4)}, "teams", share.FairShare{Anyone: 1, Over: []string{"cpu"}})
				long := hollow.Task(500)
				long.Task.Requests = long.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"node/n00": 1}))
				s.Submit(esl.Copies(5, long), esltest.As("a"))
				time.Sleep(before)
				s.Submit(small(500, 2), esltest.As("b"))
				time.Sleep(3 * time.Second)
				s.BeginsWithin(s.Submit(esl.Copies(1, hollow.Task(2500)), esltest.As("c")), 30*time.Second)
			})
		})
	}
}

// TestFairShareOfTheLargeReclaims evicts endless small tasks where capacity is reserved for a large
// one: they fit where its share was free in fragments.
func TestFairShareOfTheLargeReclaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := share.FairShare{Anyone: 1, Over: []string{"cpu"}, Reclaim: manifest.Duration(10 * time.Second)}
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(4, 4)}, "teams", p)
		a, b := s.Submit(esl.Copies(40, hollow.Task(250)), esltest.As("a")), s.Submit(esl.Copies(40, hollow.Task(250)), esltest.As("b"))
		time.Sleep(30 * time.Second)
		large := s.Submit(esl.Copies(1, hollow.Task(3000)), esltest.As("c"))
		s.BeginsWithin(large, 30*time.Second)
		time.Sleep(5 * time.Second)
		s.Shares("cpu", 0, map[string]float64{"a": 6.5, "b": 6.5, "c": 3})
		time.Sleep(time.Minute)
		before := s.Evicted()
		time.Sleep(2 * time.Minute) // and so it stays
		if n := s.Evicted(); n != before {
			t.Errorf("%d more were evicted later", n-before)
		}
		s.Stop(a, b, large)
		s.NothingLeft()
	})
}
