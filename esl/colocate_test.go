package esl_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// TestColocate: all go where all have room, and together to another node when that is lost.
func TestColocate(t *testing.T) {
	onSite(t, hollow.Nodes(3, 4), func(s *site) {
		others := s.run("others", []controlplane.Submission{taskOn("n00", 2000), taskOn("n01", 2000)})
		s.await(esl.Node, "n00 1, n01 1", others)
		job := s.run("pair", esl.Copies(4, hollow.Task(1000)), esl.Colocate{})
		s.await(esl.Node, "n02 4", job)
		s.stop(others.Tasks...)
		s.must(s.c.Kill(s.Context(), "n02"))
		v := s.view()
		at := hollow.Running(v, "d")[job.Tasks[0]]
		if got := spots(v, esl.Node, job); got != at+" 4" || at == "n02" {
			t.Errorf("they run on %q", got)
		}
		s.nothingLeft(job, others)
	})
}

// TestColocateRack: in one rack, on whatever nodes; what is too small for all does not
// hold them up.
func TestColocateRack(t *testing.T) {
	onSite(t, hollow.Racks(hollow.Nodes(6, 4), 2), func(s *site) {
		others := s.run("others", []controlplane.Submission{taskOn("n00", 3000), taskOn("n02", 3000)})
		s.await(esl.Node, "n00 1, n02 1", others)
		job := s.run("eight", esl.Copies(8, hollow.Task(1000)), esl.Colocate{In: esl.Rack})
		s.await(esl.Rack, "r2 8", job)
		s.nothingLeft(job, others)
		more := s.run("ten", esl.Copies(10, hollow.Task(1000, "run", "10s")), esl.Colocate{In: esl.Rack})
		if _, err := s.jobs.Wait(s.Context(), controlplane.UntilEnded, more.Tasks...); err != nil {
			t.Fatal(err)
		}
		v := s.view()
		racks := map[string]bool{}
		for _, m := range v.Members(cluster.ID{Namespace: "d", ID: more.Job}) {
			racks[v.Nodes[m.Status.V.Node].Info.V.Label("rack")] = true
		}
		if len(racks) != 1 {
			t.Errorf("they ran in racks %v", racks)
		}
		s.nothingLeft()
	})
}

// TestColocateMoves: while nobody is on a node, the place follows the room.
func TestColocateMoves(t *testing.T) {
	onSite(t, hollow.Nodes(2, 4), func(s *site) {
		a := s.run("a", []controlplane.Submission{taskOn("n00", 4000)})
		b := s.run("b", []controlplane.Submission{taskOn("n01", 4000)})
		s.await(esl.Node, "n00 1, n01 1", a, b)
		job := s.run("pair", esl.Copies(2, hollow.Task(1000)), esl.Colocate{})
		s.says(job.Tasks[0], "colocate: the tasks of its job share a node: n00")
		s.stop(b.Tasks...)
		s.await(esl.Node, "n01 2", job)
		s.nothingLeft(job, a, b)
	})
}

// TestColocateWith: near a task that knows nothing of it, whichever comes first, and where
// it goes.
func TestColocateWith(t *testing.T) {
	onSite(t, hollow.Nodes(3, 4), func(s *site) {
		job := s.run("sidecar", esl.Copies(1, hollow.Task(100)), esl.Colocate{With: "web"})
		s.says(job.Tasks[0], "colocate: it is to be on the node of web, which is on none")
		web := taskOn("n01", 500)
		web.Task.Name, web.Task.Requests = "web", types.NewRequests(map[string]types.Quantity{"cpu": 500})
		launched, err := s.jobs.Launch(s.Context(), web)
		s.must(err)
		first := s.node(launched.Tasks[0])
		if got := s.node(job.Tasks[0]); got != first || first == "" {
			t.Fatalf("it runs on %q, with %q", got, first)
		}
		s.must(s.c.Kill(s.Context(), first))
		second := s.node(launched.Tasks[0])
		if got := s.node(job.Tasks[0]); got != second || second == first || second == "" {
			t.Errorf("it runs on %q, with %q, before %q", got, second, first)
		}
		s.stop(launched.Tasks...)
		s.nothingLeft(job)
	})
}

// TestColocateWithJob: where any of the tasks of a job is, by its name.
func TestColocateWithJob(t *testing.T) {
	onSite(t, hollow.Racks(hollow.Nodes(4, 4), 2), func(s *site) {
		ps := s.run("ps", esl.Copies(1, hollow.Task(3000)), esl.Apart{})
		v := s.view()
		rack := v.Nodes[hollow.Running(v, "d")[ps.Tasks[0]]].Info.V.Label("rack")
		job := s.run("workers", esl.Copies(4, hollow.Task(1000)), esl.Colocate{With: "ps", In: esl.Rack})
		s.await(esl.Rack, rack+" 4", job)
		s.nothingLeft(job, ps)
	})
}

// TestColocateLoss: one of the tasks is evicted.
func TestColocateLoss(t *testing.T) {
	for _, test := range []struct {
		loss     esl.Loss
		attempts string
		phase    types.Phase
	}{
		{"", "2 1 1", types.Running}, {esl.Alone, "2 1 1", types.Running},
		{esl.Restart, "2 2 2", types.Running}, {esl.Fail, "1 1 1", types.Cancelled},
	} {
		onSite(t, hollow.Nodes(2, 4), func(s *site) {
			job := s.run("three", esl.Copies(3, hollow.Task(1000)), esl.Colocate{OnLoss: test.loss})
			at := s.node(job.Tasks[0])
			s.await(esl.Node, at+" 3", job)
			s.must(s.jobs.Evict(s.Context(), job.Tasks[0], 1))
			s.pass(20 * time.Second)
			v := s.view()
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
			s.nothingLeft(job)
		})
	}
}

// TestColocateGang: the node is chosen for what is locked as a whole.
func TestColocateGang(t *testing.T) {
	onSite(t, hollow.Nodes(3, 4), func(s *site) {
		others := s.run("others", []controlplane.Submission{taskOn("n00", 1000), taskOn("n02", 1000)})
		s.await(esl.Node, "n00 1, n02 1", others)
		job := s.run("gang", esl.Copies(4, hollow.Task(1000)), esl.Colocate{}, esl.Gang{})
		s.await(esl.Node, "n01 4", job)
		s.nothingLeft(job, others)
	})
}

func ExampleColocate() {
	exampleSite(hollow.Nodes(3, 8), func(ctx context.Context, c *hollow.Cluster, jobs *esl.Client) error {
		_, err := exampleRun(ctx, c, jobs, esl.Node, esl.Job{Name: "server", Tasks: []controlplane.Submission{taskOn("n02", 1000)}})
		if err != nil {
			return err
		}
		where, err := exampleRun(ctx, c, jobs, esl.Node, esl.Job{Name: "workers", Tasks: esl.Copies(4, hollow.Task(500))}, esl.Colocate{With: "server"})
		fmt.Println(where)
		return err
	})
	// Output: n02 4
}
