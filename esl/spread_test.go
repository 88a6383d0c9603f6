package esl_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

func TestApart(t *testing.T) {
	onSite(t, hollow.Racks(hollow.Nodes(6, 4), 2), func(s *site) {
		job := s.run("apart", esl.Copies(4, hollow.Task(100)), esl.Apart{In: esl.Rack})
		s.await(esl.Rack, "r0 1, r1 1, r2 1", job)
		s.says(s.waiting(job)[0], "apart: at most 1 of its job may be on one rack, and each of 3 has so many")
		s.c.Add(hollow.Node{Name: "late", Capacity: map[string]types.Quantity{"cpu": 4000}, Labels: map[string]string{"rack": "r9"}})
		s.await(esl.Rack, "r0 1, r1 1, r2 1, r9 1", job)
		s.nothingLeft(job)
	})
}

func TestSpread(t *testing.T) {
	onSite(t, hollow.Racks(hollow.Nodes(6, 4), 2), func(s *site) {
		job := s.run("even", esl.Copies(9, hollow.Task(500)), esl.Spread{Over: esl.Rack})
		s.await(esl.Rack, "r0 3, r1 3, r2 3", job)
		s.must(s.c.Kill(s.Context(), "n00"))
		s.must(s.c.Kill(s.Context(), "n01"))
		// r0 has no node any more, and counts no more.
		s.await(esl.Rack, "r1 5, r2 4 | r1 4, r2 5", job)
		s.nothingLeft(job)
	})
}

// TestSpreadOverNodes: a node that is full still counts; one that joins gets the next.
func TestSpreadOverNodes(t *testing.T) {
	onSite(t, hollow.Nodes(3, 4), func(s *site) {
		full := s.run("full", []controlplane.Submission{taskOn("n00", 3500)})
		s.await(esl.Node, "n00 1", full)
		job := s.run("even", esl.Copies(8, hollow.Task(500)), esl.Spread{})
		s.await(esl.Node, "n00 1, n01 2, n02 2", job)
		s.says(s.waiting(job)[0], "spread: at most 1 more may be on one node than on another, and they have: n00 1, n01 2, n02 2")
		s.stop(full.Tasks...)
		s.await(esl.Node, "n00 3, n01 3, n02 2 | n00 2, n01 3, n02 3 | n00 3, n01 2, n02 3", job)
		s.nothingLeft(job)
	})
}

// taskOn is a task for one node.
func taskOn(node string, milliCPU types.Quantity, command ...string) controlplane.Submission {
	x := hollow.Task(int(milliCPU), command...)
	x.Task.Requests = x.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"node/" + node: 1000}))
	return x
}

// TestSpreadNeverSkewed looks at every revision while 40 tasks are bound to four racks, one
// of which is full at first.
func TestSpreadNeverSkewed(t *testing.T) {
	onSite(t, hollow.Racks(hollow.Nodes(8, 4), 2), func(s *site) {
		others := s.run("others", []controlplane.Submission{taskOn("n00", 3900, "run", "20s"), taskOn("n01", 3900, "run", "20s")})
		s.await(esl.Node, "n00 1, n01 1", others)
		skew, stop := s.watchSkew("even", esl.Rack, 4)
		tasks := esl.Copies(40, hollow.Task(100))
		for i := range tasks {
			tasks[i].Task.Name = "even"
		}
		job := s.run("even", tasks, esl.Spread{Over: esl.Rack, MaxSkew: 3})
		s.await(esl.Rack, "r0 2, r1 5, r2 5, r3 5", job)
		for len(s.running(job)) < len(job.Tasks) {
			s.view()
		}
		stop()
		if got := <-skew; got != 3 {
			t.Errorf("one rack had %d more than another, want 3 at most, and at times", got)
		}
		s.nothingLeft(job, others)
	})
}

// watchSkew follows the tasks of a name, revision by revision, until stop: then it sends
// how many more of them were in one of n domains than in another at most.
func (s *site) watchSkew(name string, in esl.Domain, n int) (skew <-chan int, stop func()) {
	ctx, stop := context.WithCancel(s.Context())
	out := make(chan int, 1)
	go func() {
		most, at := 0, int64(0)
		v := cluster.New()
		look := func() {
			count := make(map[string]int)
			for _, node := range v.Nodes {
				for _, b := range node.Bindings {
					if b.Task.Info.V != nil && b.Task.Info.V.Name == name && b.Info.V != nil {
						count[node.Info.V.Label(string(in))]++
					}
				}
			}
			low, high := 1<<30, 0
			for _, c := range count {
				low, high = min(low, c), max(high, c)
			}
			if len(count) < n {
				low = 0
			}
			most = max(most, high-low)
		}
		err := controlplane.ListWatch(ctx, s.c.Store, controlplane.ListWatchOptions{Prefix: controlplane.Root}, func(u controlplane.Update) error {
			for _, e := range u.Events {
				if e.ModRevision != at && !u.Synced {
					look()
					at = e.ModRevision
				}
				if _, _, err := v.Apply(e); err != nil {
					return err
				}
			}
			v.Reached(u.Revision)
			look()
			return nil
		})
		if err != nil && ctx.Err() == nil {
			s.Error(err)
		}
		out <- most
	}()
	return out, stop
}

// TestSpreadSurvivesTakeover kills what keeps policies again and again.
func TestSpreadSurvivesTakeover(t *testing.T) {
	onSite(t, hollow.Racks(hollow.Nodes(4, 4), 2), func(s *site) {
		s.c.StopKeeping()
		job := s.run("even", esl.Copies(6, hollow.Task(100)), esl.Spread{Over: esl.Rack})
		if got := s.on(esl.Rack, job); got != "" {
			t.Errorf("they run on %q, and nobody keeps the policy", got)
		}
		for range 5 {
			s.c.Keep()
		}
		s.await(esl.Rack, "r0 3, r1 3", job)
		s.nothingLeft(job)
	})
}

func TestBalance(t *testing.T) {
	onSite(t, hollow.Nodes(4, 8), func(s *site) {
		all := s.run("all", esl.Copies(10, hollow.Task(100)), esl.Balance{})
		s.view()
		for _, n := range []string{"n00", "n01", "n02", "n03"} {
			if got := s.count(all, n); got > 3 {
				t.Errorf("%s has %d of 10, want 3 at most", n, got)
			}
		}
		two := s.run("two", esl.Copies(10, hollow.Task(100)), esl.Balance{Nodes: 2})
		v := s.view()
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
		s.must(s.c.Kill(s.Context(), lost))
		v = s.view()
		used = map[string]int{}
		for _, id := range two.Tasks {
			used[hollow.Running(v, "d")[id]]++
		}
		if len(used) != 2 || used[""] != 0 || used[lost] != 0 {
			t.Errorf("when %s was lost, 10 tasks on 2 nodes are on %v", lost, used)
		}
		s.nothingLeft(all, two)
	})
}

// count is how many of a job run on a node.
func (s *site) count(job controlplane.Launched, node string) int {
	s.Helper()
	running, n := hollow.Running(s.view(), "d"), 0
	for _, id := range job.Tasks {
		if running[id] == node {
			n++
		}
	}
	return n
}

// TestElasticBalance: jobs come one after the other, a node joins, another one is drained.
func TestElasticBalance(t *testing.T) {
	onSite(t, hollow.Nodes(3, 8), func(s *site) {
		_, err := s.jobs.Submit(s.Context(), esl.Job{Name: "early", Tasks: esl.Copies(1, hollow.Task(100))}, esl.Balanced{In: "web"})
		if !types.Is(err, types.Precondition) {
			t.Errorf("nothing of that name: %v", err)
		}
		s.must(s.jobs.Declare(s.Context(), "web", esl.ElasticBalance{}, ""))
		a := s.run("a", esl.Copies(4, hollow.Task(100)), esl.Balanced{In: "web"})
		b := s.run("b", esl.Copies(5, hollow.Task(100)), esl.Balanced{In: "web"})
		s.await(esl.Node, "n00 3, n01 3, n02 3", a, b)
		s.c.Add(hollow.Nodes(4, 8)[3])
		s.view()
		c := s.run("c", esl.Copies(3, hollow.Task(100)), esl.Balanced{In: "web"})
		s.await(esl.Node, "n00 3, n01 3, n02 3, n03 3", a, b, c)
		s.must(s.c.Kill(s.Context(), "n01"))
		s.await(esl.Node, "n00 4, n02 4, n03 4", a, b, c)
		s.stop(a.Tasks...)
		s.stop(b.Tasks...)
		s.stop(c.Tasks...)
		s.forgotten("web")
		s.must(s.jobs.Withdraw(s.Context(), "web", false))
		s.nothingLeft()
	})
}

// TestElasticBalanceFull: a node without room does not hold up the others.
func TestElasticBalanceFull(t *testing.T) {
	onSite(t, hollow.Nodes(2, 4), func(s *site) {
		full := s.run("full", []controlplane.Submission{taskOn("n00", 3900)})
		s.await(esl.Node, "n00 1", full)
		job := s.run("web", esl.Copies(6, hollow.Task(500)), esl.ElasticBalance{})
		s.await(esl.Node, "n01 6", job)
		s.nothingLeft(full, job)
	})
}

// TestSpreadGang: a gang is placed at once, and so are the places of all its members.
func TestSpreadGang(t *testing.T) {
	onSite(t, hollow.Racks(hollow.Nodes(4, 4), 2), func(s *site) {
		job := s.run("gang", esl.Copies(6, hollow.Task(1000)), esl.Spread{Over: esl.Rack}, esl.Gang{})
		s.await(esl.Rack, "r0 3, r1 3", job)
		s.nothingLeft(job)
	})
}

func ExampleSpread() {
	exampleSite(hollow.Racks(hollow.Nodes(4, 8), 2), func(ctx context.Context, c *hollow.Cluster, jobs *esl.Client) error {
		where, err := exampleRun(ctx, c, jobs, esl.Rack, esl.Job{Name: "web", Tasks: esl.Copies(6, hollow.Task(500))}, esl.Spread{Over: esl.Rack, MaxSkew: 1})
		fmt.Println(where)
		return err
	})
	// Output: r0 3, r1 3
}

func ExampleApart() {
	exampleSite(hollow.Nodes(3, 8), func(ctx context.Context, c *hollow.Cluster, jobs *esl.Client) error {
		where, err := exampleRun(ctx, c, jobs, esl.Node, esl.Job{Name: "db", Tasks: esl.Copies(3, hollow.Task(500))}, esl.Apart{})
		fmt.Println(where)
		return err
	})
	// Output: n00 1, n01 1, n02 1
}

func ExampleBalance() {
	exampleSite(hollow.Nodes(3, 8), func(ctx context.Context, c *hollow.Cluster, jobs *esl.Client) error {
		where, err := exampleRun(ctx, c, jobs, esl.Node, esl.Job{Name: "map", Tasks: esl.Copies(9, hollow.Task(500))}, esl.Balance{})
		fmt.Println(where)
		return err
	})
	// Output: n00 3, n01 3, n02 3
}

func ExampleElasticBalance() {
	exampleSite(hollow.Nodes(2, 8), func(ctx context.Context, c *hollow.Cluster, jobs *esl.Client) error {
		if err := jobs.Declare(ctx, "web", esl.ElasticBalance{}, ""); err != nil {
			return err
		}
		for _, name := range []string{"a", "b"} {
			where, err := exampleRun(ctx, c, jobs, esl.Node, esl.Job{Name: name, Tasks: esl.Copies(2, hollow.Task(500))}, esl.Balanced{In: "web"})
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

// TestNodesTooSmallDoNotCount: a node that is too small for any of the tasks holds up nobody.
func TestNodesTooSmallDoNotCount(t *testing.T) {
	nodes := append(hollow.Nodes(2, 8), hollow.Node{Name: "small", Capacity: map[string]types.Quantity{"cpu": 500}})
	for _, p := range []esl.Policy{esl.Spread{}, esl.Balance{}, esl.ElasticBalance{}} {
		onSite(t, nodes, func(s *site) {
			job := s.run("j", esl.Copies(6, hollow.Task(1000, "run", "1h")), p)
			s.await(esl.Node, "n00 3, n01 3", job)
		})
	}
}

// TestSpreadGangGoesWhereRoomIs: a gang of fewer than there are domains, or of which some get
// one more, does not wait for one that is full.
func TestSpreadGangGoesWhereRoomIs(t *testing.T) {
	onSite(t, hollow.Racks(hollow.Nodes(6, 4), 2), func(s *site) {
		full := s.run("full", append(esl.Copies(1, taskOn("n00", 3000)), esl.Copies(1, taskOn("n01", 4000))...))
		s.await(esl.Node, "n00 1, n01 1", full)
		on := s.run("on", esl.Copies(2, hollow.Task(2000)), esl.Gang{}, esl.Spread{})
		s.pass(5 * time.Second)
		if n := len(s.running(on)); n != 2 {
			t.Errorf("%d of 2 run: %s", n, s.why(on.Tasks[0]))
		}
		s.stop(on.Tasks...)
		s.await(esl.Rack, "r0 1, r1 2, r2 2", s.run("over", esl.Copies(5, hollow.Task(1000)), esl.Gang{}, esl.Spread{Over: esl.Rack}))
	})
}
