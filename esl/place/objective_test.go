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
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// TestObjectiveLoad makes the weighted load of unequal nodes equal.
func TestObjectiveLoad(t *testing.T) {
	nodes := hollow.Nodes(3, 4)
	nodes[2].Capacity["cpu"] = 16000
	esltest.OnSite(t, nodes, func(s *esltest.Site) {
		job := s.Run("even", esl.Copies(12, hollow.Task(1000)), place.Objective{By: place.Load})
		s.Await(esl.Node, "n00 2, n01 2, n02 8", job)
		s.Must(s.C.Kill(s.Context(), "n00"))
		s.Await(esl.Node, "n01 2, n02 10 | n01 3, n02 9", job)
		s.NothingLeft(job)
	})
}

// TestObjectiveBestFit takes the fullest node; a task that fits nowhere blocks no other.
func TestObjectiveBestFit(t *testing.T) {
	nodes := hollow.Nodes(3, 4)
	nodes[1].Capacity["cpu"] = 2000
	esltest.OnSite(t, nodes, func(s *esltest.Site) {
		tasks := []controlplane.Submission{hollow.Task(9000), hollow.Task(1500), hollow.Task(3000), hollow.Task(1000)}
		job := s.Run("fit", tasks, place.Objective{By: place.Leftover})
		s.Pass(2 * time.Second)
		if a, b, c := s.Node(job.Tasks[1]), s.Node(job.Tasks[2]), s.Node(job.Tasks[3]); a != "n01" || b == "" || b != c {
			t.Errorf("they run on %q, %q and %q, want n01, and one for both", a, b, c)
		}
		s.Says(job.Tasks[0], "objective: no node has room for it at present")
		s.NothingLeft(job)
	})
}

// TestObjectiveAhead assigns a few tasks at a time, and all run in the end.
func TestObjectiveAhead(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(4, 16), func(s *esltest.Site) {
		job := s.Run("many", esl.Copies(60, hollow.Task(1000)), place.Objective{By: place.DotProduct, Ahead: 3})
		if got := len(s.Running(job)); got != 60 {
			t.Errorf("%d of 60 run", got)
		}
		s.NothingLeft(job)
	})
}

// TestObjectiveShared places tasks of several jobs in one order.
func TestObjectiveShared(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(2, 8), func(s *esltest.Site) {
		s.Must(s.Jobs.Declare(s.Context(), "fair", place.Objective{By: place.Load}, ""))
		a := s.Run("a", esl.Copies(3, hollow.Task(1000)), esl.Use{Name: "fair"})
		b := s.Run("b", esl.Copies(3, hollow.Task(1000)), esl.Use{Name: "fair"})
		s.Await(esl.Node, "n00 3, n01 3", a, b)
		s.Stop(a.Tasks...)
		s.Stop(b.Tasks...)
		s.Forgotten("fair")
		s.Must(s.Jobs.Withdraw(s.Context(), "fair", false))
		s.NothingLeft()
	})
}

// TestObjectiveMisled lets another task take the chosen capacity: another node is chosen. An
// evicted task is assigned again.
func TestObjectiveMisled(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(2, 4), func(s *esltest.Site) {
		big := s.Run("big", []controlplane.Submission{esltest.TaskOn("n00", 4000), esltest.TaskOn("n01", 4000)})
		s.Await(esl.Node, "n00 1, n01 1", big)
		job := s.Run("one", esl.Copies(1, hollow.Task(2000)), place.Objective{By: place.Load})
		s.Snapshot()
		_, err := s.Jobs.SetResource(s.Context(), job.Job+".objective.0", types.Inf, controlplane.OnNode("n00"), controlplane.SetOptions{Declare: true, Lifetime: types.OfJob, Owner: job.Job})
		s.Must(err)
		s.Says(job.Tasks[0], "objective: n00 was chosen for it")
		s.Stop(big.Tasks[1])
		s.Await(esl.Node, "n01 1", job)
		_, err = s.Jobs.Cordon(s.Context(), "n01", types.Cordon{Reason: "test"})
		s.Must(err)
		s.Must(s.Jobs.Evict(s.Context(), job.Tasks[0], 1))
		s.Stop(big.Tasks[0])
		s.Await(esl.Node, "n00 1", job)
		v := s.Snapshot()
		if st := v.Task(cluster.ID{Namespace: "d", ID: job.Tasks[0]}).Status.V; st.Attempt != 2 {
			t.Errorf("attempt %d, want 2", st.Attempt)
		}
		s.NothingLeft(job, big)
	})
}

// TestObjectiveFragments: a task that needs half a GPU breaks no pair that another kind needs
// whole.
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
	esltest.OnSite(t, nodes, func(s *esltest.Site) {
		job := s.Run("mixed", []controlplane.Submission{gpus(1000), gpus(2000)}, place.Objective{By: place.Fragments})
		s.Pass(2 * time.Second)
		if a, b := s.Node(job.Tasks[0]), s.Node(job.Tasks[1]); a != "z-broken" || b != "a-full" {
			t.Errorf("they run on %q and %q, want z-broken and a-full: %s", a, b, s.Why(job.Tasks[1]))
		}
		s.NothingLeft(job)
	})
}

// coldest is a custom policy: tasks go where it is coldest.
type coldest struct {
	Degrees map[string]float64 `json:"degrees"`
}

func (coldest) Kind() string { return "acme.com/coldest" }

func (coldest) Apply(g *esl.Group) error { place.AssignEach(g); return nil }

func (coldest) ClusterScoped() {}

func (p coldest) Next(s *esl.State) esl.Plan {
	return place.Assign{Score: func(_ []cluster.Need, r *esl.Room) float64 { return p.Degrees[r.Node.Name] }}.Next(s)
}

// TestAssign runs a custom policy based on Assign, like those of this package.
func TestAssign(t *testing.T) {
	esltest.OnSiteWith(t, hollow.Config{Nodes: hollow.Nodes(3, 4), Kinds: builtin.Kinds().With(func() esl.Policy { return coldest{} })}, func(s *esltest.Site) {
		job := s.Run("cold", esl.Copies(6, hollow.Task(1000)), coldest{Degrees: map[string]float64{"n00": 30, "n01": 20, "n02": 25}})
		s.Await(esl.Node, "n01 4, n02 2", job)
		s.NothingLeft(job)
	})
}

func ExampleObjective() {
	nodes := hollow.Nodes(2, 4)
	nodes[1].Capacity["cpu"] = 8000
	exampleSite(nodes, func(ctx context.Context, c *hollow.Cluster, jobs *esl.Client) error {
		where, err := exampleRun(ctx, c, jobs, esl.Node, controlplane.Job{Name: "even", Tasks: esl.Copies(6, hollow.Task(1000))}, place.Objective{By: place.Load})
		fmt.Println(where)
		return err
	})
	// Output: n00 2, n01 4
}
