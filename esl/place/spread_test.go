package place_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

func TestApart(t *testing.T) {
	esltest.OnSite(t, hollow.Racks(hollow.Nodes(6, 4), 2), func(s *esltest.Site) {
		job := s.Run("apart", esl.Copies(4, hollow.Task(100)), place.Apart{In: esl.Rack})
		s.Await(esl.Rack, "r0 1, r1 1, r2 1", job)
		s.Says(s.Waiting(job)[0], "apart: at most 1 of its job may be on one rack, and each of 3 has so many")
		s.C.Add(hollow.Node{Name: "late", Capacity: map[string]types.Quantity{"cpu": 4000}, Labels: map[string]string{"rack": "r9"}})
		s.Await(esl.Rack, "r0 1, r1 1, r2 1, r9 1", job)
		s.NothingLeft(job)
	})
}

func TestSpread(t *testing.T) {
	esltest.OnSite(t, hollow.Racks(hollow.Nodes(6, 4), 2), func(s *esltest.Site) {
		job := s.Run("even", esl.Copies(9, hollow.Task(500)), place.Spread{Over: esl.Rack})
		s.Await(esl.Rack, "r0 3, r1 3, r2 3", job)
		s.Must(s.C.Kill(s.Context(), "n00"))
		s.Must(s.C.Kill(s.Context(), "n01"))
		// r0 has no node any more, and does not count.
		s.Await(esl.Rack, "r1 5, r2 4 | r1 4, r2 5", job)
		s.NothingLeft(job)
	})
}

// TestSpreadOverNodes: a full node still counts; a new one gets the next task.
func TestSpreadOverNodes(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(3, 4), func(s *esltest.Site) {
		full := s.Run("full", []controlplane.Submission{esltest.TaskOn("n00", 3500)})
		s.Await(esl.Node, "n00 1", full)
		job := s.Run("even", esl.Copies(8, hollow.Task(500)), place.Spread{})
		s.Await(esl.Node, "n00 1, n01 2, n02 2", job)
		s.Says(s.Waiting(job)[0], "spread: at most 1 more may be on one node than on another, and they have: n00 1, n01 2 and n02 2")
		s.Stop(full.Tasks...)
		s.Await(esl.Node, "n00 3, n01 3, n02 2 | n00 2, n01 3, n02 3 | n00 3, n01 2, n02 3", job)
		s.NothingLeft(job)
	})
}

// TestSpreadNeverSkewed checks every revision while 40 tasks are bound to four racks, one of which
// is full at first.
func TestSpreadNeverSkewed(t *testing.T) {
	esltest.OnSite(t, hollow.Racks(hollow.Nodes(8, 4), 2), func(s *esltest.Site) {
		others := s.Run("others", []controlplane.Submission{esltest.TaskOn("n00", 3900, "run", "20s"), esltest.TaskOn("n01", 3900, "run", "20s")})
		s.Await(esl.Node, "n00 1, n01 1", others)
		skew, stop := s.WatchSkew("even", esl.Rack, 4)
		tasks := esl.Copies(40, hollow.Task(100))
		for i := range tasks {
			tasks[i].Task.Name = "even"
		}
		job := s.Run("even", tasks, place.Spread{Over: esl.Rack, MaxSkew: 3})
		s.Await(esl.Rack, "r0 2, r1 5, r2 5, r3 5", job)
		for len(s.Running(job)) < len(job.Tasks) {
			s.Snapshot()
		}
		stop()
		if got := <-skew; got != 3 {
			t.Errorf("one rack had %d more than another, want 3 at most, and at times", got)
		}
		s.NothingLeft(job, others)
	})
}

// TestSpreadSurvivesTakeover kills the process that runs policies again and again.
func TestSpreadSurvivesTakeover(t *testing.T) {
	esltest.OnSite(t, hollow.Racks(hollow.Nodes(4, 4), 2), func(s *esltest.Site) {
		s.C.StopKeeping()
		job := s.Run("even", esl.Copies(6, hollow.Task(100)), place.Spread{Over: esl.Rack})
		if got := s.On(esl.Rack, job); got != "" {
			t.Errorf("they run on %q, and no program runs the policy", got)
		}
		for range 5 {
			s.C.Keep()
		}
		s.Await(esl.Rack, "r0 3, r1 3", job)
		s.NothingLeft(job)
	})
}

func TestBalance(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(4, 8), func(s *esltest.Site) {
		all := s.Run("all", esl.Copies(10, hollow.Task(100)), place.Balance{})
		s.Snapshot()
		for _, n := range []string{"n00", "n01", "n02", "n03"} {
			if got := s.Count(all, n); got > 3 {
				t.Errorf("%s has %d of 10, want 3 at most", n, got)
			}
		}
		two := s.Run("two", esl.Copies(10, hollow.Task(100)), place.Balance{Nodes: 2})
		v := s.Snapshot()
		used := map[string]int{}
		for _, id := range two.Tasks {
			used[hollow.Running(v, "d")[id]]++
		}
		if len(used) != 2 || used[""] != 0 {
			t.Errorf("10 tasks on 2 nodes are on %v", used)
		}
		for n, count := range used {
			if count != 5 {
				t.Errorf("%s has %d, want 5", n, count)
			}
		}
		var lost string
		for n := range used {
			lost = n
		}
		s.Must(s.C.Kill(s.Context(), lost))
		v = s.Snapshot()
		used = map[string]int{}
		for _, id := range two.Tasks {
			used[hollow.Running(v, "d")[id]]++
		}
		if len(used) != 2 || used[""] != 0 || used[lost] != 0 {
			t.Errorf("when %s was lost, 10 tasks on 2 nodes are on %v", lost, used)
		}
		s.NothingLeft(all, two)
	})
}

// TestElasticBalance submits jobs one after the other, adds a node, and drains another one.
func TestElasticBalance(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(3, 8), func(s *esltest.Site) {
		_, err := s.Jobs.Submit(s.Context(), controlplane.Job{Name: "early", Tasks: esl.Copies(1, hollow.Task(100))}, esl.Use{Name: "web"})
		if !types.Is(err, types.Precondition) {
			t.Errorf("nothing of that name: %v", err)
		}
		s.Must(s.Jobs.Declare(s.Context(), "web", place.ElasticBalance{}, ""))
		a := s.Run("a", esl.Copies(4, hollow.Task(100)), esl.Use{Name: "web"})
		b := s.Run("b", esl.Copies(5, hollow.Task(100)), esl.Use{Name: "web"})
		s.Await(esl.Node, "n00 3, n01 3, n02 3", a, b)
		s.C.Add(hollow.Nodes(4, 8)[3])
		s.Snapshot()
		c := s.Run("c", esl.Copies(3, hollow.Task(100)), esl.Use{Name: "web"})
		s.Await(esl.Node, "n00 3, n01 3, n02 3, n03 3", a, b, c)
		s.Must(s.C.Kill(s.Context(), "n01"))
		s.Await(esl.Node, "n00 4, n02 4, n03 4", a, b, c)
		s.Stop(a.Tasks...)
		s.Stop(b.Tasks...)
		s.Stop(c.Tasks...)
		s.Forgotten("web")
		s.Must(s.Jobs.Withdraw(s.Context(), "web", false))
		s.NothingLeft()
	})
}

// TestElasticBalanceFull: a full node does not hold up the others.
func TestElasticBalanceFull(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(2, 4), func(s *esltest.Site) {
		full := s.Run("full", []controlplane.Submission{esltest.TaskOn("n00", 3900)})
		s.Await(esl.Node, "n00 1", full)
		job := s.Run("web", esl.Copies(6, hollow.Task(500)), place.ElasticBalance{})
		s.Await(esl.Node, "n01 6", job)
		s.NothingLeft(full, job)
	})
}

// TestSpreadGang places a gang at once.
func TestSpreadGang(t *testing.T) {
	esltest.OnSite(t, hollow.Racks(hollow.Nodes(4, 4), 2), func(s *esltest.Site) {
		job := s.Run("gang", esl.Copies(6, hollow.Task(1000)), place.Spread{Over: esl.Rack}, gang.Gang{})
		s.Await(esl.Rack, "r0 3, r1 3", job)
		s.NothingLeft(job)
	})
}

func ExampleSpread() {
	exampleSite(hollow.Racks(hollow.Nodes(4, 8), 2), func(ctx context.Context, c *hollow.Cluster, jobs *esl.Client) error {
		where, err := exampleRun(ctx, c, jobs, esl.Rack, controlplane.Job{Name: "web", Tasks: esl.Copies(6, hollow.Task(500))}, place.Spread{Over: esl.Rack, MaxSkew: 1})
		fmt.Println(where)
		return err
	})
	// Output: r0 3, r1 3
}

func ExampleApart() {
	exampleSite(hollow.Nodes(3, 8), func(ctx context.Context, c *hollow.Cluster, jobs *esl.Client) error {
		where, err := exampleRun(ctx, c, jobs, esl.Node, controlplane.Job{Name: "db", Tasks: esl.Copies(3, hollow.Task(500))}, place.Apart{})
		fmt.Println(where)
		return err
	})
	// Output: n00 1, n01 1, n02 1
}

func ExampleBalance() {
	exampleSite(hollow.Nodes(3, 8), func(ctx context.Context, c *hollow.Cluster, jobs *esl.Client) error {
		where, err := exampleRun(ctx, c, jobs, esl.Node, controlplane.Job{Name: "map", Tasks: esl.Copies(9, hollow.Task(500))}, place.Balance{})
		fmt.Println(where)
		return err
	})
	// Output: n00 3, n01 3, n02 3
}

func ExampleElasticBalance() {
	exampleSite(hollow.Nodes(2, 8), func(ctx context.Context, c *hollow.Cluster, jobs *esl.Client) error {
		if err := jobs.Declare(ctx, "web", place.ElasticBalance{}, ""); err != nil {
			return err
		}
		for _, name := range []string{"a", "b"} {
			where, err := exampleRun(ctx, c, jobs, esl.Node, controlplane.Job{Name: name, Tasks: esl.Copies(2, hollow.Task(500))}, esl.Use{Name: "web"})
			if err != nil {
				return err
			}
			fmt.Println(where)
		}
		return nil
	})
	// Output:
	// n00 1, n01 1
	// n00 1, n01 1
}

// TestNodesTooSmallDoNotCount: a node too small for any of the tasks does not hold them up.
func TestNodesTooSmallDoNotCount(t *testing.T) {
	nodes := append(hollow.Nodes(2, 8), hollow.Node{Name: "small", Capacity: map[string]types.Quantity{"cpu": 500}})
	for _, p := range []esl.Policy{place.Spread{}, place.Balance{}, place.ElasticBalance{}} {
		esltest.OnSite(t, nodes, func(s *esltest.Site) {
			job := s.Run("j", esl.Copies(6, hollow.Task(1000, "run", "1h")), p)
			s.Await(esl.Node, "n00 3, n01 3", job)
		})
	}
}

// TestSpreadGangGoesWhereRoomIs: a gang of fewer tasks than domains, or where some get one more,
// does not wait for a full domain.
func TestSpreadGangGoesWhereRoomIs(t *testing.T) {
	esltest.OnSite(t, hollow.Racks(hollow.Nodes(6, 4), 2), func(s *esltest.Site) {
		full := s.Run("full", append(esl.Copies(1, esltest.TaskOn("n00", 3000)), esl.Copies(1, esltest.TaskOn("n01", 4000))...))
		s.Await(esl.Node, "n00 1, n01 1", full)
		on := s.Run("on", esl.Copies(2, hollow.Task(2000)), gang.Gang{}, place.Spread{})
		s.Pass(5 * time.Second)
		if n := len(s.Running(on)); n != 2 {
			t.Errorf("%d of 2 run: %s", n, s.Why(on.Tasks[0]))
		}
		s.Stop(on.Tasks...)
		s.Await(esl.Rack, "r0 1, r1 2, r2 2", s.Run("over", esl.Copies(5, hollow.Task(1000)), gang.Gang{}, place.Spread{Over: esl.Rack}))
	})
}
