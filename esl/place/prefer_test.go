package place_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// TestPrefer takes the best place at once, the next one in time, in the end any.
func TestPrefer(t *testing.T) {
	nodes := hollow.Racks(hollow.Nodes(4, 1), 1)
	nodes[0].Labels["disk"] = "ssd"
	esltest.OnSite(t, nodes, func(s *esltest.Site) {
		p := place.Prefer{Of: []place.Choice{
			{Labels: map[string]string{"disk": "ssd"}},
			{Rack: "r2", After: manifest.Duration(5 * time.Second)},
		}, Anywhere: manifest.Wait(10 * time.Second)}
		job := s.Run("soft", esl.Copies(4, hollow.Task(1000)), p)
		s.Await(esl.Node, "n00 1", job)
		if got, want := s.Why(s.Waiting(job)[0]), "prefer: it takes disk=ssd; place 2 of 2 in 3s"; got != want {
			t.Errorf("it waits: %q, want %q", got, want)
		}
		s.Await(esl.Node, "n00 1, n02 1", job)
		s.Await(esl.Node, "n00 1, n01 1, n02 1, n03 1", job)
		s.Must(s.C.Kill(s.Context(), "n00"))
		s.C.Add(hollow.Node{Name: "new", Capacity: map[string]types.Quantity{"cpu": 1000}, Labels: map[string]string{"disk": "ssd"}})
		s.Await(esl.Node, "n01 1, n02 1, n03 1, new 1", job)
		s.NothingLeft(job)
	})
}

// TestPreferWithApart combines OR and AND.
func TestPreferWithApart(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(4, 4), func(s *esltest.Site) {
		job := s.Run("soft", esl.Copies(3, hollow.Task(1000)), place.Apart{}, place.Prefer{Of: []place.Choice{{Node: "n02"}, {Node: "n03"}}})
		s.Await(esl.Node, "n02 1, n03 1", job)
		s.Says(s.Waiting(job)[0], "prefer: it takes node n02, or node n03, and nothing else")
		s.NothingLeft(job)
	})
}

func ExamplePrefer() {
	exampleSite(hollow.Nodes(3, 2), func(ctx context.Context, c *hollow.Cluster, jobs *esl.Client) error {
		where, err := exampleRun(ctx, c, jobs, esl.Node, controlplane.Job{Name: "soft", Tasks: esl.Copies(3, hollow.Task(1000))},
			place.Prefer{Of: []place.Choice{{Node: "n01"}, {Node: "n02"}}})
		fmt.Println(where) // n01 while they fit there
		return err
	})
	// Output: n01 2, n02 1
}
