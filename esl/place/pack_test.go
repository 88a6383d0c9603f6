package place_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// TestPack uses as few nodes as possible, opens no new ones while tasks fit, and shrinks again.
func TestPack(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(4, 4), func(s *esltest.Site) {
		s.Must(s.Jobs.Declare(s.Context(), "bin", place.Pack{}, ""))
		a := s.Run("a", esl.Copies(3, hollow.Task(1000)), esl.Use{Name: "bin"})
		s.NodesUsed(1, a)
		b := s.Run("b", esl.Copies(1, hollow.Task(1000)), esl.Use{Name: "bin"})
		s.NodesUsed(1, a, b)
		c := s.Run("c", esl.Copies(5, hollow.Task(1000)), esl.Use{Name: "bin"})
		s.NodesUsed(3, a, b, c)
		s.Stop(a.Tasks...)
		s.Stop(c.Tasks...)
		s.NodesUsed(1, b)
		d := s.Run("d", esl.Copies(3, hollow.Task(1000)), esl.Use{Name: "bin"})
		s.NodesUsed(1, b, d)
		if n := s.OpenNodes("d:bin.pack"); n != 0 {
			t.Errorf("%d nodes are open, and the one in use is full", n)
		}
		s.Stop(b.Tasks...)
		s.Stop(d.Tasks...)
		s.Forgotten("bin")
		s.Must(s.Jobs.Withdraw(s.Context(), "bin", false))
		s.NothingLeft()
	})
}

// TestPackLoss loses the full node.
func TestPackLoss(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(3, 4), func(s *esltest.Site) {
		job := s.Run("a", esl.Copies(4, hollow.Task(1000)), place.Pack{})
		s.NodesUsed(1, job)
		first := s.Node(job.Tasks[0])
		s.Must(s.C.Kill(s.Context(), first))
		s.NodesUsed(1, job)
		if s.Node(job.Tasks[0]) == first {
			t.Error("they run on what was lost")
		}
		more := s.Run("big", esl.Copies(9, hollow.Task(1000)), place.Pack{})
		v := s.Snapshot()
		waits := 0
		for _, id := range more.Tasks {
			if v.Task(cluster.ID{Namespace: "d", ID: id}).Phase() == types.Pending {
				waits++
				s.Says(id, "pack: no node has room for it: neither those with tasks of its job (1) nor others")
			}
		}
		if waits != 5 {
			t.Errorf("%d wait, want 5", waits)
		}
		s.NothingLeft(job, more)
	})
}

func ExamplePack() {
	exampleSite(hollow.Nodes(4, 4), func(ctx context.Context, c *hollow.Cluster, jobs *esl.Client) error {
		if _, err := exampleRun(ctx, c, jobs, esl.Node, controlplane.Job{Name: "first", Tasks: []controlplane.Submission{esltest.TaskOn("n01", 1000)}}); err != nil {
			return err
		}
		where, err := exampleRun(ctx, c, jobs, esl.Node, controlplane.Job{Name: "batch", Tasks: esl.Copies(3, hollow.Task(1000))}, place.Pack{})
		fmt.Println(where) // where the least is left
		return err
	})
	// Output: n01 3
}

// TestPackTwice: of two of a kind in a job, one depends on the other: neither follows the other
// from node to node.
func TestPackTwice(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(2, 4), func(s *esltest.Site) {
		s.Must(s.Jobs.Declare(s.Context(), "bin", place.Pack{}, ""))
		s.Must(s.Jobs.Declare(s.Context(), "no", admission.Semaphore{}, ""))
		job := s.Run("j", esl.Copies(2, hollow.Task(1000)), esl.Use{Name: "bin"}, esl.Use{Name: "no"}, place.Pack{})
		s.C.StopKeeping()
		for name, node := range map[string]string{"bin.pack": "n00", job.Job + ".pack": "n01"} {
			_, err := s.Jobs.SetResource(s.Context(), name, types.Inf, controlplane.OnNode(node), controlplane.SetOptions{})
			s.Must(err)
		}
		s.C.Keep()
		s.Pass(5 * time.Second)
		was := s.Snapshot().Revision
		if s.Pass(10 * time.Second); s.Snapshot().Revision != was {
			t.Errorf("%d changes in 10s, and nothing happens", s.Snapshot().Revision-was)
		}
		s.Must(s.Jobs.Declare(s.Context(), "no", admission.Semaphore{Limit: 2}, ""))
		s.Pass(5 * time.Second)
		s.NodesUsed(1, job)
	})
}

// TestPackKeepsWhatIsCollected lets a gang run where it accumulated capacity, even if all of it
// then fits in another way.
func TestPackKeepsWhatIsCollected(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(2, 4), func(s *esltest.Site) {
		on := map[string]controlplane.Launched{}
		for _, node := range []string{"n00", "n01"} {
			on[node] = s.Run(node, esl.Copies(1, esltest.TaskOn(node, 2000)))
		}
		gang := s.Run("gang", esl.Copies(5, hollow.Task(1000)), gang.Gang{}, place.Pack{})
		s.Pass(time.Minute)
		r := s.Snapshot().Reservations[esltest.IDOf(gang.Job+".gang")]
		if r == nil || !r.Current() {
			t.Fatalf("nothing is collected: %s", s.Why(gang.Tasks[0]))
		}
		for node, n := range esltest.Count(r.Grant.V.Bundles) {
			if n == 2 { // the other node has no capacity for one of them
				s.Stop(on[node].Tasks...)
			}
		}
		s.Pass(time.Minute)
		if n := len(s.Running(gang)); n != 5 {
			t.Errorf("%d of 5 run: %s", n, s.Why(gang.Tasks[0]))
		}
	})
}
