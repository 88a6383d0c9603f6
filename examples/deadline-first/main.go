// Command deadline-first runs a policy that jobs share: their tasks begin in the order of their
// deadlines, and no task overtakes one with an earlier deadline. See docs/policies/own-order.md.
package main

import (
	"cmp"
	"context"
	"log"
	"os"
	"os/signal"

	"github.com/escher-sched/escher/api/escher"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// DeadlineFirst is the shared policy: the earliest deadline begins first.
type DeadlineFirst struct {
	Backfill bool `json:"backfill,omitempty"`
}

// Kind returns the name for a document of kind Policy.
func (DeadlineFirst) Kind() string { return "acme.com/deadline-first" }

// Apply refuses: jobs take part by esl.Use.
func (DeadlineFirst) Apply(*esl.Group) error {
	return types.Errorf(types.Invalid, "acme.com/deadline-first is shared: declare it, and have jobs use it by its name")
}

// Declare creates nothing: Next creates everything, also for a policy from a file.
func (DeadlineFirst) Declare(string) ([]controlplane.Resource, error) { return nil, nil }

// ClusterScoped has Escher call Next when others free capacity.
func (DeadlineFirst) ClusterScoped() {}

// Next lets those tasks begin that come first and fit; a task without a deadline comes last.
func (p DeadlineFirst) Next(s *esl.State) esl.Plan {
	by := func(t *cluster.Task) uint64 { return uint64(t.Info.V.Deadline) - 1 }
	before := func(a, b *cluster.Task) int { return cmp.Compare(by(a), by(b)) }
	return taskset.Line{Kind: p.Kind(), Before: before, Backfill: p.Backfill}.Plan(s)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	client, err := escher.Connect(ctx)
	if err == nil {
		err = client.RunPolicies(ctx, func() esl.Policy { return DeadlineFirst{} })
	}
	if ctx.Err() == nil {
		log.Fatal(err)
	}
}
