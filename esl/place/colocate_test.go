package place_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// TestColocate puts all tasks where all fit, and moves them together when that node is lost.
func TestColocate(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(3, 4), func(s *esltest.Site) {
		others := s.Run("others", []controlplane.Submission{esltest.TaskOn("n00", 2000), esltest.TaskOn("n01", 2000)})
		s.Await(esl.Node, "n00 1, n01 1", others)
		job := s.Run("pair", esl.Copies(4, hollow.Task(1000)), place.Colocate{})
		s.Await(esl.Node, "n02 4", job)
		s.Stop(others.Tasks...)
		s.Must(s.C.Kill(s.Context(), "n02"))
		v := s.Snapshot()
		at := hollow.Running(v, "d")[job.Tasks[0]]
		if got := esltest.Spots(v, esl.Node, job); got != at+" 4" || at == "n02" {
			t.Errorf("they run on %q", got)
		}
		s.NothingLeft(job, others)
	})
}

// TestColocateRack puts all in one rack, on any nodes. A rack too small for all does not hold them
// up.
func TestColocateRack(t *testing.T) {
	esltest.OnSite(t, hollow.Racks(hollow.Nodes(6, 4), 2), func(s *esltest.Site) {
		others := s.Run("others", []controlplane.Submission{esltest.TaskOn("n00", 3000), esltest.TaskOn("n02", 3000)})
		s.Await(esl.Node, "n00 1, n02 1", others)
		job := s.Run("eight", esl.Copies(8, hollow.Task(1000)), place.Colocate{In: esl.Rack})
		s.Await(esl.Rack, "r2 8", job)
		s.NothingLeft(job, others)
		more := s.Run("ten", esl.Copies(10, hollow.Task(1000, "run", "10s")), place.Colocate{In: esl.Rack})
		if _, err := s.Jobs.Wait(s.Context(), controlplane.UntilEnded, more.Tasks...); err != nil {
			t.Fatal(err)
		}
		v := s.Snapshot()
		racks := map[string]bool{}
		for _, m := range v.Members(cluster.ID{Namespace: "d", ID: more.Job}) {
			racks[v.Nodes[m.Status.V.Node].Info.V.Label("rack")] = true
		}
		if len(racks) != 1 {
			t.Errorf("they ran in racks %v", racks)
		}
		s.NothingLeft()
	})
}

// TestColocateMoves follows free capacity while no task has a node.
func TestColocateMoves(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(2, 4), func(s *esltest.Site) {
		a := s.Run("a", []controlplane.Submission{esltest.TaskOn("n00", 4000)})
		b := s.Run("b", []controlplane.Submission{esltest.TaskOn("n01", 4000)})
		s.Await(esl.Node, "n00 1, n01 1", a, b)
		job := s.Run("pair", esl.Copies(2, hollow.Task(1000)), place.Colocate{})
		s.Says(job.Tasks[0], "colocate: the tasks of its job share a node: n00")
		s.Stop(b.Tasks...)
		s.Await(esl.Node, "n01 2", job)
		s.NothingLeft(job, a, b)
	})
}

// TestColocateWith runs near a task that does not know of it, in any order of submission, and
// follows it.
func TestColocateWith(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(3, 4), func(s *esltest.Site) {
		job := s.Run("sidecar", esl.Copies(1, hollow.Task(100)), place.Colocate{With: "web"})
		s.Says(job.Tasks[0], "colocate: it is to be on the node of web, which is on none")
		web := esltest.TaskOn("n01", 500)
		web.Task.Name, web.Task.Requests = "web", types.NewRequests(map[string]types.Quantity{"cpu": 500})
		launched, err := s.Jobs.Launch(s.Context(), web)
		s.Must(err)
		first := s.Node(launched.Tasks[0])
		if got := s.Node(job.Tasks[0]); got != first || first == "" {
			t.Fatalf("it runs on %q, with %q", got, first)
		}
		s.Must(s.C.Kill(s.Context(), first))
		second := s.Node(launched.Tasks[0])
		if got := s.Node(job.Tasks[0]); got != second || second == first || second == "" {
			t.Errorf("it runs on %q, with %q, before %q", got, second, first)
		}
		s.Stop(launched.Tasks...)
		s.NothingLeft(job)
	})
}

// TestColocateWithJob runs where any task of a job runs, by its name.
func TestColocateWithJob(t *testing.T) {
	esltest.OnSite(t, hollow.Racks(hollow.Nodes(4, 4), 2), func(s *esltest.Site) {
		ps := s.Run("ps", esl.Copies(1, hollow.Task(3000)), place.Apart{})
		v := s.Snapshot()
		rack := v.Nodes[hollow.Running(v, "d")[ps.Tasks[0]]].Info.V.Label("rack")
		job := s.Run("workers", esl.Copies(4, hollow.Task(1000)), place.Colocate{With: "ps", In: esl.Rack})
		s.Await(esl.Rack, rack+" 4", job)
		s.NothingLeft(job, ps)
	})
}

// TestColocateLoss evicts one of the tasks.
func TestColocateLoss(t *testing.T) {
	for _, test := range []struct {
		loss     esl.Loss
		attempts string
		phase    types.Phase
	}{
		{"", "2 1 1", types.Running}, {esl.Alone, "2 1 1", types.Running},
		{esl.Restart, "2 2 2", types.Running}, {esl.Fail, "1 1 1", types.Cancelled},
	} {
		esltest.OnSite(t, hollow.Nodes(2, 4), func(s *esltest.Site) {
			job := s.Run("three", esl.Copies(3, hollow.Task(1000)), place.Colocate{OnLoss: test.loss})
			at := s.Node(job.Tasks[0])
			s.Await(esl.Node, at+" 3", job)
			s.Must(s.Jobs.Evict(s.Context(), job.Tasks[0], 1))
			s.Pass(20 * time.Second)
			v := s.Snapshot()
			var attempts []string
			for _, id := range job.Tasks {
				st := v.Task(cluster.ID{Namespace: "d", ID: id}).Status.V
				attempts = append(attempts, fmt.Sprint(st.Attempt))
				if st.Phase != test.phase {
					t.Errorf("%q: %s is %s, want %s", test.loss, id, st.Phase, test.phase)
				}
			}
			if got := strings.Join(attempts, " "); got != test.attempts && test.loss != esl.Fail {
				t.Errorf("%q: attempts %s, want %s", test.loss, got, test.attempts)
			}
			s.NothingLeft(job)
		})
	}
}

// TestColocateGang chooses the node for a gang as a whole.
func TestColocateGang(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(3, 4), func(s *esltest.Site) {
		others := s.Run("others", []controlplane.Submission{esltest.TaskOn("n00", 1000), esltest.TaskOn("n02", 1000)})
		s.Await(esl.Node, "n00 1, n02 1", others)
		job := s.Run("gang", esl.Copies(4, hollow.Task(1000)), place.Colocate{}, gang.Gang{})
		s.Await(esl.Node, "n01 4", job)
		s.NothingLeft(job, others)
	})
}

func ExampleColocate() {
	exampleSite(hollow.Nodes(3, 8), func(ctx context.Context, c *hollow.Cluster, jobs *esl.Client) error {
		_, err := exampleRun(ctx, c, jobs, esl.Node, controlplane.Job{Name: "server", Tasks: []controlplane.Submission{esltest.TaskOn("n02", 1000)}})
		if err != nil {
			return err
		}
		where, err := exampleRun(ctx, c, jobs, esl.Node, controlplane.Job{Name: "workers", Tasks: esl.Copies(4, hollow.Task(500))}, place.Colocate{With: "server"})
		fmt.Println(where)
		return err
	})
	// Output: n02 4
}
