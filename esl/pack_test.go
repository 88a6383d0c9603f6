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

// TestPack: as few nodes as they need; no new ones while there is room; fewer again.
func TestPack(t *testing.T) {
	onSite(t, hollow.Nodes(4, 4), func(s *site) {
		s.must(s.jobs.Declare(s.Context(), "bin", esl.Pack{}, ""))
		a := s.run("a", esl.Copies(3, hollow.Task(1000)), esl.Packed{In: "bin"})
		s.nodesUsed(1, a)
		b := s.run("b", esl.Copies(1, hollow.Task(1000)), esl.Packed{In: "bin"})
		s.nodesUsed(1, a, b)
		c := s.run("c", esl.Copies(5, hollow.Task(1000)), esl.Packed{In: "bin"})
		s.nodesUsed(3, a, b, c)
		s.stop(a.Tasks...)
		s.stop(c.Tasks...)
		s.nodesUsed(1, b)
		d := s.run("d", esl.Copies(3, hollow.Task(1000)), esl.Packed{In: "bin"})
		s.nodesUsed(1, b, d)
		if n := s.openNodes("d:bin.pack"); n != 0 {
			t.Errorf("%d nodes are open, and the one in use is full", n)
		}
		s.stop(b.Tasks...)
		s.stop(d.Tasks...)
		s.forgotten("bin")
		s.must(s.jobs.Withdraw(s.Context(), "bin", false))
		s.nothingLeft()
	})
}

// nodesUsed checks that all tasks of jobs run, on so many nodes.
func (s *site) nodesUsed(want int, jobs ...controlplane.Launched) {
	s.Helper()
	running := hollow.Running(s.view(), "d")
	used := make(map[string]bool)
	for _, job := range jobs {
		for _, id := range job.Tasks {
			if running[id] == "" {
				s.Errorf("%s does not run: %s", id, s.why(id))
			}
			used[running[id]] = true
		}
	}
	if len(used) != want {
		s.Errorf("they run on %d nodes, want %d: %v", len(used), want, used)
	}
}

// openNodes is how many nodes have some of a resource.
func (s *site) openNodes(id types.ResourceID) int {
	s.Helper()
	v, n := s.view(), 0
	for _, x := range v.At(id) {
		if q, _ := v.Capacity(x, id); q > 0 {
			n++
		}
	}
	return n
}

// TestPackLoss: the node that is full is lost.
func TestPackLoss(t *testing.T) {
	onSite(t, hollow.Nodes(3, 4), func(s *site) {
		job := s.run("a", esl.Copies(4, hollow.Task(1000)), esl.Pack{})
		s.nodesUsed(1, job)
		first := s.node(job.Tasks[0])
		s.must(s.c.Kill(s.Context(), first))
		s.nodesUsed(1, job)
		if s.node(job.Tasks[0]) == first {
			t.Error("they run on what was lost")
		}
		more := s.run("big", esl.Copies(9, hollow.Task(1000)), esl.Pack{})
		v := s.view()
		waits := 0
		for _, id := range more.Tasks {
			if v.Task(cluster.ID{Namespace: "d", ID: id}).Phase() == types.Pending {
				waits++
				s.says(id, "pack: 1 nodes have tasks of it, and neither these nor any other has room for this one")
			}
		}
		if waits != 5 {
			t.Errorf("%d wait, want 5", waits)
		}
		s.nothingLeft(job, more)
	})
}

func ExamplePack() {
	exampleSite(hollow.Nodes(4, 4), func(ctx context.Context, c *hollow.Cluster, jobs *esl.Client) error {
		if _, err := exampleRun(ctx, c, jobs, esl.Node, esl.Job{Name: "first", Tasks: []controlplane.Submission{taskOn("n01", 1000)}}); err != nil {
			return err
		}
		where, err := exampleRun(ctx, c, jobs, esl.Node, esl.Job{Name: "batch", Tasks: esl.Copies(3, hollow.Task(1000))}, esl.Pack{})
		fmt.Println(where) // where the least is left
		return err
	})
	// Output: n01 3
}

// TestPackTwice: of two of a kind that a job has, one goes by the other: neither follows the
// other from node to node.
func TestPackTwice(t *testing.T) {
	onSite(t, hollow.Nodes(2, 4), func(s *site) {
		s.must(s.jobs.Declare(s.Context(), "bin", esl.Pack{}, ""))
		s.must(s.jobs.Declare(s.Context(), "no", esl.Semaphore{}, ""))
		job := s.run("j", esl.Copies(2, hollow.Task(1000)), esl.Packed{In: "bin"}, esl.Holds{Semaphore: "no"}, esl.Pack{})
		s.c.StopKeeping()
		for name, node := range map[string]string{"bin.pack": "n00", job.Job + ".pack": "n01"} {
			_, err := s.jobs.SetResource(s.Context(), name, types.Inf, controlplane.OnNode(node), controlplane.SetOptions{})
			s.must(err)
		}
		s.c.Keep()
		s.pass(5 * time.Second)
		was := s.view().Revision
		if s.pass(10 * time.Second); s.view().Revision != was {
			t.Errorf("%d changes in 10s, and nothing happens", s.view().Revision-was)
		}
		s.must(s.jobs.Declare(s.Context(), "no", esl.Semaphore{Limit: 2}, ""))
		s.pass(5 * time.Second)
		s.nodesUsed(1, job)
	})
}

// TestPackKeepsWhatIsCollected: where a gang has collected something it may still be when there
// is room for all of it in another way than that by which it began to collect.
func TestPackKeepsWhatIsCollected(t *testing.T) {
	onSite(t, hollow.Nodes(2, 4), func(s *site) {
		on := map[string]controlplane.Launched{}
		for _, node := range []string{"n00", "n01"} {
			on[node] = s.run(node, esl.Copies(1, taskOn(node, 2000)))
		}
		gang := s.run("gang", esl.Copies(5, hollow.Task(1000)), esl.Gang{}, esl.Pack{})
		s.pass(time.Minute)
		r := s.view().Reservations[idOf(gang.Job+".gang")]
		if r == nil || !r.Current() {
			t.Fatalf("nothing is collected: %s", s.why(gang.Tasks[0]))
		}
		for node, n := range count(r.Grant.V.Bundles) {
			if n == 2 { // the other one lacks room for one of them
				s.stop(on[node].Tasks...)
			}
		}
		s.pass(time.Minute)
		if n := len(s.running(gang)); n != 5 {
			t.Errorf("%d of 5 run: %s", n, s.why(gang.Tasks[0]))
		}
	})
}
