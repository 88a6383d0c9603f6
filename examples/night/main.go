// Command night runs a policy of its own: tasks of jobs with acme.com/night begin only at night.
// See docs/writing-a-policy.md.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/escher-sched/escher/api/escher"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// Night lets tasks begin between two hours of the day, in UTC. Those that run go on.
type Night struct {
	From  int `json:"from"`
	Until int `json:"until"`
}

// Kind is what jobs name it by.
func (Night) Kind() string { return "acme.com/night" }

// Validate checks the parameters.
func (n Night) Validate() error {
	if min(n.From, n.Until) < 0 || max(n.From, n.Until) > 24 {
		return types.Errorf(types.Invalid, "from, until: %d to %d are no hours: give 0 to 24", n.From, n.Until)
	}
	return nil
}

// Apply has every task ask for one of <job>.night.
func (n Night) Apply(g *esl.Group) error {
	g.AskAll(g.Own(""), esl.One)
	return n.Validate()
}

// Next makes <job>.night without bound at night, and closed by day.
func (n Night) Next(s *esl.State) esl.Plan {
	hour, night := s.Now.UTC().Hour(), types.Quantity(0)
	if n.From <= hour && hour < n.Until || n.From > n.Until && (n.From <= hour || hour < n.Until) {
		night = types.Inf
	}
	plan := esl.Plan{RequeueAfter: s.Now.Truncate(time.Hour).Add(time.Hour), Reason: "another hour has begun"}
	if pool := s.Pool(s.Own("")); !s.Ended() && (pool == nil || pool.Info.V == nil || pool.Capacity() != night) {
		plan.Set = []controlplane.Resource{{Name: s.Own(""), Capacity: night, Where: controlplane.InCluster(), Options: esl.OfJob(s.Job)}}
	}
	return plan
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	client, err := escher.Connect(ctx)
	if err == nil {
		err = client.RunPolicies(ctx, func() esl.Policy { return Night{} })
	}
	if ctx.Err() == nil {
		log.Fatal(err)
	}
}
