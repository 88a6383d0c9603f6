package gang_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
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

// TestGangIsAllOrNothing binds all members at one revision, or none, and holds nothing until then.
func TestGangIsAllOrNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(4, 4)})
		holder := g.SubmitTasks(1, hollow.Task(3000, "run", "20s"), place.Apart{})
		g.Running(holder)
		job := g.SubmitTasks(4, hollow.Task(3000, "run", "10s"), gang.Gang{})
		time.Sleep(10 * time.Second)
		v := g.Snapshot()
		for name, n := range v.Nodes {
			for _, h := range holdings(n) {
				if h.Resource == types.CPU && h.Amount != 3000 || len(n.Bindings) != 1 {
					t.Errorf("%s holds %v", name, h)
				}
			}
		}
		if got := g.Why(job.Tasks[0]); got != "gang train: 3 of 4 members would fit; it waits until all do" {
			t.Errorf("why: %q", got)
		}
		g.Running(job)
		v = g.Snapshot()
		bound := make(map[int64]bool)
		for _, id := range job.Tasks {
			bound[v.Task(cluster.ID{Namespace: "d", ID: id}).Bindings[0].Info.Create] = true
		}
		if r := v.Reservations[cluster.ID{Namespace: "d", ID: job.Job + ".gang"}]; len(bound) != 1 || !bound[r.Grant.Create] {
			t.Errorf("members were bound at %v, and granted at %d", bound, r.Grant.Create)
		}
		for id, s := range g.Ended(job) {
			if s.Phase != types.Succeeded {
				t.Errorf("%s %s: %s", id, s.Phase, s.Reason)
			}
		}
		g.Clean()
	})
}

func holdings(n *cluster.Node) []types.Holding {
	if n.Allocated.V == nil {
		return nil
	}
	return n.Allocated.V.Holds
}

// TestGangTooLarge submits in one transaction, and refuses a gang too large for the registered
// nodes at once.
func TestGangTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Racks(hollow.Nodes(4, 4), 2)})
		refused := func(n int, says string, policies ...esl.Policy) {
			t.Helper()
			_, err := g.Submit(t.Context(), controlplane.Job{Name: "train", Tasks: esl.Copies(n, hollow.Task(3000))}, policies...)
			if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, want %q", err, says)
			}
		}
		refused(5, "4 of its 5 members would fit; the tasks request 15 cpu, up to 3 on one node: the cluster has 16, the largest node 4: ask for less", gang.Gang{})
		refused(4, "2 of its 4 members would fit on one rack; the tasks request 12 cpu, up to 3 on one node: the largest rack has 8, the largest node 4: ask", gang.Gang{In: esl.Rack})
		refused(2, "0 of its 2 members would fit on one node; the tasks request 6 cpu, up to 6 on one node: the cluster has 16, the largest node 4: ask", gang.Gang{In: esl.Node})
		if len(g.Snapshot().Jobs) != 0 {
			t.Error("something was written")
		}
		// A new node is noticed before a refusal.
		g.Add(hollow.Node{Name: "late", Capacity: map[string]types.Quantity{"cpu": 4000}})
		g.AwaitView(func(v *cluster.View) bool { return v.Nodes["late"] != nil && v.Nodes["late"].Alive.V != nil })
		g.Running(g.SubmitTasks(5, hollow.Task(3000), gang.Gang{}))
	})
}

// TestGangPlaces composes a gang with other placement policies.
func TestGangPlaces(t *testing.T) {
	two := func(cpu int, provides ...types.Provide) controlplane.Submission {
		s := hollow.Task(cpu)
		s.Task.Provides = provides
		return s
	}
	partner := two(1000)
	partner.Task.Requests = partner.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"with": esl.One}))
	for name, c := range map[string]struct {
		tasks    []controlplane.Submission
		policies []esl.Policy
		right    func(nodes map[string]int, racks map[string]int) bool
	}{
		"wherever":   {esl.Copies(8, hollow.Task(2000)), []esl.Policy{gang.Gang{}}, func(n, _ map[string]int) bool { return len(n) >= 4 }},
		"one node":   {esl.Copies(4, hollow.Task(1000)), []esl.Policy{gang.Gang{In: esl.Node}}, func(n, _ map[string]int) bool { return len(n) == 1 }},
		"two a node": {esl.Copies(6, hollow.Task(1000)), []esl.Policy{gang.Gang{PerNode: 2}, place.Apart{PerNode: 2}}, func(n, _ map[string]int) bool { return len(n) == 3 }},
		"one rack":   {esl.Copies(4, hollow.Task(2000)), []esl.Policy{gang.Gang{In: esl.Rack}}, func(_, r map[string]int) bool { return len(r) == 1 }},
		"apart":      {esl.Copies(4, hollow.Task(1000)), []esl.Policy{gang.Gang{}, place.Apart{}}, func(n, _ map[string]int) bool { return len(n) == 4 }},
		"apart, in one rack": {esl.Copies(2, hollow.Task(1000)), []esl.Policy{place.Apart{}, gang.Gang{In: esl.Rack}}, func(n, r map[string]int) bool {
			return len(n) == 2 && len(r) == 1
		}},
		"unequal": {[]controlplane.Submission{hollow.Task(1000), hollow.Task(4000), hollow.Task(2000), hollow.Task(3000), hollow.Task(4000)}, []esl.Policy{gang.Gang{}}, func(n, _ map[string]int) bool {
			return len(n) == 4 || len(n) == 5
		}},
		"with what a member provides": {[]controlplane.Submission{two(1000, types.Provide{Name: "with", Amount: esl.One, When: types.WhenBound}), partner},
			[]esl.Policy{gang.Gang{In: esl.Node}}, func(n, _ map[string]int) bool { return len(n) == 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := hollow.Config{Nodes: hollow.Racks(hollow.Nodes(6, 4), 2)}
				g := esltest.StartGangs(t, cfg)
				job, err := g.Submit(t.Context(), controlplane.Job{Name: "train", Tasks: c.tasks}, c.policies...)
				if err != nil {
					t.Fatal(err)
				}
				nodes := g.Running(job)
				racks := make(map[string]int)
				for _, n := range cfg.Nodes {
					if esltest.Count(nodes)[n.Name] > 0 {
						racks[n.Labels["rack"]]++
					}
				}
				if !c.right(esltest.Count(nodes), racks) {
					t.Errorf("they are on %v, in racks %v", nodes, racks)
				}
				for _, id := range job.Tasks {
					if err := g.Stop(t.Context(), id, controlplane.StopOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				g.Ended(job)
				g.Clean()
			})
		})
	}
}

// TestGangMovesToAnotherRackWhileItWaits moves to the rack that has capacity first.
func TestGangMovesToAnotherRackWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Racks(hollow.Nodes(4, 4), 2)})
		fill := func(node, run string) controlplane.Launched {
			s := hollow.Task(3000, "run", run)
			s.Task.Requests = s.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"node/" + node: 1}))
			return g.SubmitTasks(1, s)
		}
		long, short := fill("n00", "2h"), fill("n03", "5s")
		g.Running(long)
		g.Running(short)
		job := g.SubmitTasks(2, hollow.Task(3000), gang.Gang{In: esl.Rack})
		time.Sleep(2 * time.Second)
		if got := g.Why(job.Tasks[0]); got != "gang train: 1 of 2 members would fit on one rack; it waits until all do" {
			t.Errorf("why: %q", got)
		}
		began := time.Now()
		if nodes := esltest.Count(g.Running(job)); nodes["n02"] != 1 || nodes["n03"] != 1 || time.Since(began) > 6*time.Second {
			t.Errorf("%v after %s", nodes, time.Since(began))
		}
	})
}

// TestGangEndsWithItsApplication kills the application of a gang: all of it ends with the session.
func TestGangEndsWithItsApplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Racks(hollow.Nodes(4, 4), 2)})
		for _, n := range []int{2, 8} { // one that runs, and one that waits
			session, err := g.OpenSession(t.Context(), "app", controlplane.MinTTL)
			if err != nil {
				t.Fatal(err)
			}
			job, err := g.Submit(t.Context(), controlplane.Job{Name: "train", Tasks: esl.Copies(n, hollow.Task(2000)), Session: session.ID}, gang.Gang{})
			if err != nil {
				t.Fatal(err)
			}
			if n == 2 {
				g.Running(job)
			}
			g.Ended(job) // the session is not renewed any more
		}
		g.Clean()
	})
}

// TestGangColocatedWaitsAgain reserves again for a gang that another policy puts on one node.
func TestGangColocatedWaitsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(3, 4)})
		holder := g.SubmitTasks(3, hollow.Task(2000), place.Apart{})
		g.Running(holder)
		job := g.SubmitTasks(3, hollow.Task(1000), gang.Gang{}, place.Colocate{})
		time.Sleep(time.Second)
		if got := g.Why(job.Tasks[0]); !strings.HasPrefix(got, "gang train: 0 of 3 members would fit on one node; it waits until all do") {
			t.Errorf("why: %q", got)
		}
		if err := g.Stop(t.Context(), holder.Tasks[0], controlplane.StopOptions{}); err != nil {
			t.Fatal(err)
		}
		g.Running(job)
		g.Preempt(job)
		g.AwaitView(func(v *cluster.View) bool {
			for _, id := range job.Tasks {
				if s := v.Task(cluster.ID{Namespace: "d", ID: id}).Status.V; s.Attempt != 2 || s.Phase != types.Running {
					return false
				}
			}
			return true
		})
		if nodes := esltest.Count(g.Running(job)); len(nodes) != 1 {
			t.Errorf("they are on %v", nodes)
		}
		if r := g.Snapshot().Reservations[cluster.ID{Namespace: "d", ID: job.Job + ".gang"}]; len(r.Info.V.Bundles) != 1 {
			t.Errorf("they are locked as %d bundles", len(r.Info.V.Bundles))
		}
	})
}

// TestGangWithoutRacks refuses a gang in one rack if no node has the label.
func TestGangWithoutRacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(3, 4)})
		_, err := g.Submit(t.Context(), controlplane.Job{Tasks: esl.Copies(2, hollow.Task(1000))}, gang.Gang{In: esl.Rack})
		if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "no node has a label rack") {
			t.Errorf("%v", err)
		}
	})
}

// ExampleGang is a gang of four, three of which fit at first.
func ExampleGang() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := hollow.Start(ctx, hollow.Config{Nodes: hollow.Nodes(4, 4)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()
	jobs, err := c.Client("d")
	if err != nil {
		fmt.Println(err)
		return
	}
	holder, err := jobs.Submit(ctx, controlplane.Job{Name: "holder", Tasks: esl.Copies(1, hollow.Task(4000))})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := jobs.Wait(ctx, controlplane.UntilRunning, holder.Tasks...); err != nil {
		fmt.Println(err)
		return
	}

	gang, err := jobs.Submit(ctx, controlplane.Job{Name: "train", Tasks: esl.Copies(4, hollow.Task(4000))}, gang.Gang{Loss: esl.Restart})
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := c.View(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, reason := range esl.Why(v, jobs.Kinds, cluster.ID{Namespace: "d", ID: gang.Tasks[0]}, time.Now()) {
		fmt.Println(reason.Summary)
	}
	if err := jobs.Stop(ctx, holder.Tasks[0], controlplane.StopOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := jobs.Wait(ctx, controlplane.UntilRunning, gang.Tasks...); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("all of it runs")
	// Output:
	// gang train: 3 of 4 members would fit; it waits until all do
	// all of it runs
}
