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

// TestObjectiveLoad: a weighted load becomes the same, on nodes that are not.
func TestObjectiveLoad(t *testing.T) {
	nodes := hollow.Nodes(3, 4)
	nodes[2].Capacity["cpu"] = 16000
	onSite(t, nodes, func(s *site) {
		job := s.run("even", esl.Copies(12, hollow.Task(1000)), esl.Objective{By: esl.Load})
		s.await(esl.Node, "n00 2, n01 2, n02 8", job)
		s.must(s.c.Kill(s.Context(), "n00"))
		s.await(esl.Node, "n01 2, n02 10 | n01 3, n02 9", job)
		s.nothingLeft(job)
	})
}

// TestObjectiveBestFit: where the least is left; what fits nowhere holds up nobody.
func TestObjectiveBestFit(t *testing.T) {
	nodes := hollow.Nodes(3, 4)
	nodes[1].Capacity["cpu"] = 2000
	onSite(t, nodes, func(s *site) {
		tasks := []controlplane.Submission{hollow.Task(9000), hollow.Task(1500), hollow.Task(3000), hollow.Task(1000)}
		job := s.run("fit", tasks, esl.Objective{By: esl.Leftover})
		s.pass(2 * time.Second)
		if a, b, c := s.node(job.Tasks[1]), s.node(job.Tasks[2]), s.node(job.Tasks[3]); a != "n01" || b == "" || b != c {
			t.Errorf("they run on %q, %q and %q, want n01, and one for both", a, b, c)
		}
		s.says(job.Tasks[0], "objective: no node has room for it at present")
		s.nothingLeft(job)
	})
}

// TestObjectiveAhead: few at a time have a node, and all come to run.
func TestObjectiveAhead(t *testing.T) {
	onSite(t, hollow.Nodes(4, 16), func(s *site) {
		job := s.run("many", esl.Copies(60, hollow.Task(1000)), esl.Objective{By: esl.DotProduct, Ahead: 3})
		if got := len(s.running(job)); got != 60 {
			t.Errorf("%d of 60 run", got)
		}
		s.nothingLeft(job)
	})
}

// TestObjectiveShared: tasks of several jobs, in one order.
func TestObjectiveShared(t *testing.T) {
	onSite(t, hollow.Nodes(2, 8), func(s *site) {
		s.must(s.jobs.Declare(s.Context(), "fair", esl.Objective{By: esl.Load}, ""))
		a := s.run("a", esl.Copies(3, hollow.Task(1000)), esl.Placed{By: "fair"})
		b := s.run("b", esl.Copies(3, hollow.Task(1000)), esl.Placed{By: "fair"})
		s.await(esl.Node, "n00 3, n01 3", a, b)
		s.stop(a.Tasks...)
		s.stop(b.Tasks...)
		s.forgotten("fair")
		s.must(s.jobs.Withdraw(s.Context(), "fair", false))
		s.nothingLeft()
	})
}

// TestObjectiveMisled: the room that was chosen is taken by somebody else; another one is
// chosen. What was evicted is assigned anew.
func TestObjectiveMisled(t *testing.T) {
	onSite(t, hollow.Nodes(2, 4), func(s *site) {
		big := s.run("big", []controlplane.Submission{taskOn("n00", 4000), taskOn("n01", 4000)})
		s.await(esl.Node, "n00 1, n01 1", big)
		job := s.run("one", esl.Copies(1, hollow.Task(2000)), esl.Objective{By: esl.Load})
		s.view()
		_, err := s.jobs.SetResource(s.Context(), job.Job+".objective.0", types.Inf, controlplane.OnNode("n00"), controlplane.SetOptions{Declare: true, Lifetime: types.OfJob, Owner: job.Job})
		s.must(err)
		s.says(job.Tasks[0], "objective: n00 was chosen for it")
		s.stop(big.Tasks[1])
		s.await(esl.Node, "n01 1", job)
		_, err = s.jobs.Cordon(s.Context(), "n01", types.Cordon{Reason: "test"})
		s.must(err)
		s.must(s.jobs.Evict(s.Context(), job.Tasks[0], 1))
		s.stop(big.Tasks[0])
		s.await(esl.Node, "n00 1", job)
		v := s.view()
		if st := v.Task(cluster.ID{Namespace: "d", ID: job.Tasks[0]}).Status.V; st.Attempt != 2 {
			t.Errorf("attempt %d, want 2", st.Attempt)
		}
		s.nothingLeft(job, big)
	})
}

// TestObjectiveFragments: a task that needs half a GPU breaks no pair that another kind
// needs whole.
func TestObjectiveFragments(t *testing.T) {
	nodes := []hollow.Node{
		{Name: "a-full", Capacity: map[string]types.Quantity{"cpu": 64000, "gpu": 2000}},
		{Name: "z-broken", Capacity: map[string]types.Quantity{"cpu": 64000, "gpu": 1000}},
	}
	gpus := func(milli types.Quantity) controlplane.Submission {
		x := hollow.Task(1000)
		x.Task.Requests = x.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"gpu": milli}))
		return x
	}
	onSite(t, nodes, func(s *site) {
		job := s.run("mixed", []controlplane.Submission{gpus(1000), gpus(2000)}, esl.Objective{By: esl.Fragments})
		s.pass(2 * time.Second)
		if a, b := s.node(job.Tasks[0]), s.node(job.Tasks[1]); a != "z-broken" || b != "a-full" {
			t.Errorf("they run on %q and %q, want z-broken and a-full: %s", a, b, s.why(job.Tasks[1]))
		}
		s.nothingLeft(job)
	})
}

// coldest is somebody's own policy: tasks go where it is coldest.
type coldest struct {
	Degrees map[string]float64 `json:"degrees"`
}

func (coldest) Kind() string             { return "acme.com/coldest" }
func (coldest) Apply(g *esl.Group) error { esl.AssignEach(g); return nil }
func (coldest) Wide()                    {}
func (p coldest) Next(s *esl.State) esl.Plan {
	return esl.Assign{Score: func(_ []cluster.Need, r *esl.Room) float64 { return p.Degrees[r.Node.Name] }}.Next(s)
}

// TestAssign is a policy of somebody else's by the helper that those here are made of.
func TestAssign(t *testing.T) {
	onSiteWith(t, hollow.Config{Nodes: hollow.Nodes(3, 4), Kinds: esl.Builtin().With(func() esl.Policy { return coldest{} })}, func(s *site) {
		job := s.run("cold", esl.Copies(6, hollow.Task(1000)), coldest{Degrees: map[string]float64{"n00": 30, "n01": 20, "n02": 25}})
		s.await(esl.Node, "n01 4, n02 2", job)
		s.nothingLeft(job)
	})
}

func ExampleObjective() {
	nodes := hollow.Nodes(2, 4)
	nodes[1].Capacity["cpu"] = 8000
	exampleSite(nodes, func(ctx context.Context, c *hollow.Cluster, jobs *esl.Client) error {
		where, err := exampleRun(ctx, c, jobs, esl.Node, esl.Job{Name: "even", Tasks: esl.Copies(6, hollow.Task(1000))}, esl.Objective{By: esl.Load})
		fmt.Println(where)
		return err
	})
	// Output: n00 2, n01 4
}
