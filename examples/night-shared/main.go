// Command night-shared runs a policy that jobs share: the tasks of all jobs that use it start only
// at night. See docs/policies/api.md.
package main

import (
	"context"
	"log"
	"maps"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/escher-sched/escher/api/escher"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// Shift is the shared policy: its jobs start tasks between two hours of the day, in UTC.
type Shift struct {
	From  int `json:"from"`
	Until int `json:"until"`
}

// Kind returns the name for a document of kind Policy.
func (Shift) Kind() string { return "acme.com/shift" }

// Apply refuses: jobs take part by esl.Use.
func (Shift) Apply(*esl.Group) error {
	return types.Errorf(types.Invalid, "acme.com/shift is shared: declare it, and have jobs use it by its name")
}

// Declare creates nothing: Next creates everything, also for a policy from a file.
func (Shift) Declare(string) ([]controlplane.Resource, error) { return nil, nil }

// Next opens or closes <job>.shift of each job that uses this policy.
func (p Shift) Next(s *esl.State) esl.Plan {
	hour, open := s.Now.UTC().Hour(), types.Quantity(0)
	if p.From <= hour && hour < p.Until || p.From > p.Until && (p.From <= hour || hour < p.Until) {
		open = types.Inf
	}
	plan := esl.Plan{RequeueAfter: s.Now.Truncate(time.Hour).Add(time.Hour), Reason: "another hour has begun"}
	for _, job := range slices.Sorted(maps.Keys(s.Referring())) {
		name := esl.NameOf(job, p.Kind(), "")
		pool := s.Pool(name)
		waits := slices.ContainsFunc(s.JobTasks(job), func(t *cluster.Task) bool { return !t.Phase().Ended() })
		if waits && (pool == nil || pool.Capacity() != open) && len(plan.Set) < s.MaxChanges() {
			plan.Set = append(plan.Set, controlplane.Resource{Name: name, Capacity: open, Where: controlplane.InCluster(), Options: esl.OfJob(job)})
		}
	}
	return plan
}

// kind returns an empty policy of this program.
func kind() esl.Policy { return Shift{} }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	client, err := escher.Connect(ctx)
	if err == nil {
		err = client.RunPolicies(ctx, kind)
	}
	if ctx.Err() == nil {
		log.Fatal(err)
	}
}
