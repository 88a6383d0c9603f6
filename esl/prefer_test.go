package esl_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// TestPrefer: the best at once, the next one in time, in the end anywhere.
func TestPrefer(t *testing.T) {
	nodes := hollow.Racks(hollow.Nodes(4, 1), 1)
	nodes[0].Labels["disk"] = "ssd"
	onSite(t, nodes, func(s *site) {
		p := esl.Prefer{Of: []esl.Choice{
			{Labels: map[string]string{"disk": "ssd"}},
			{Rack: "r2", After: manifest.Duration(5 * time.Second)},
		}, Anywhere: manifest.Wait(10 * time.Second)}
		job := s.run("soft", esl.Copies(4, hollow.Task(1000)), p)
		s.await(esl.Node, "n00 1", job)
		if got, want := s.why(s.waiting(job)[0]), "prefer: it takes disk=ssd; place 2 of 2 in 3s"; got != want {
			t.Errorf("it waits: %q, want %q", got, want)
		}
		s.await(esl.Node, "n00 1, n02 1", job)
		s.await(esl.Node, "n00 1, n01 1, n02 1, n03 1", job)
		s.must(s.c.Kill(s.Context(), "n00"))
		s.c.Add(hollow.Node{Name: "new", Capacity: map[string]types.Quantity{"cpu": 1000}, Labels: map[string]string{"disk": "ssd"}})
		s.await(esl.Node, "n01 1, n02 1, n03 1, new 1", job)
		s.nothingLeft(job)
	})
}

// TestPreferWithApart: OR and AND.
func TestPreferWithApart(t *testing.T) {
	onSite(t, hollow.Nodes(4, 4), func(s *site) {
		job := s.run("soft", esl.Copies(3, hollow.Task(1000)), esl.Apart{}, esl.Prefer{Of: []esl.Choice{{Node: "n02"}, {Node: "n03"}}})
		s.await(esl.Node, "n02 1, n03 1", job)
		s.says(s.waiting(job)[0], "prefer: it takes node n02, or node n03, and nothing else")
		s.nothingLeft(job)
	})
}

func ExamplePrefer() {
	exampleSite(hollow.Nodes(3, 2), func(ctx context.Context, c *hollow.Cluster, jobs *esl.Client) error {
		where, err := exampleRun(ctx, c, jobs, esl.Node, esl.Job{Name: "soft", Tasks: esl.Copies(3, hollow.Task(1000))},
			esl.Prefer{Of: []esl.Choice{{Node: "n01"}, {Node: "n02"}}})
		fmt.Println(where) // n01 while it has room
		return err
	})
	// Output: n01 2, n02 1
}
