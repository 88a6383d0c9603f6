package cost

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/quiet"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/esl/turn"
	"github.com/escher-sched/escher/types"
)

// policy is how the jobs of an arm are submitted.
type policy struct {
	name string
	// tasks is how many tasks a job has.
	tasks int
	of    []esl.Policy
	// shared, unless nil, is declared under the name of the policy, and the jobs use it.
	shared esl.Shared
	// edit changes each task.
	edit func(*types.Task)
}

// plain is the name of jobs without a policy.
const plain = "plain"

// mixed is the name of jobs of all policies by turns.
const mixed = "mixed"

// policies are those of the table, plain first.
func policies() []policy {
	lasting := func(t *types.Task) { t.MaxRun = time.Hour }
	due := func(t *types.Task) {
		t.MaxRun, t.Deadline = time.Hour, time.Now().Add(24*time.Hour).UnixNano()
	}
	urgent := func(t *types.Task) { t.Priority = 1 }
	return []policy{
		{name: plain, tasks: 1},
		{name: "gang", tasks: 2, of: []esl.Policy{gang.Gang{}}},
		{name: "gang-rack", tasks: 2, of: []esl.Policy{gang.Gang{In: esl.Rack}}},
		{name: "colocate", tasks: 2, of: []esl.Policy{place.Colocate{In: esl.Node}}},
		{name: "apart", tasks: 2, of: []esl.Policy{place.Apart{}}},
		{name: "spread", tasks: 2, of: []esl.Policy{place.Spread{Over: esl.Rack}}},
		{name: "balance", tasks: 2, of: []esl.Policy{place.Balance{}}},
		{name: "pack", tasks: 1, of: []esl.Policy{place.Pack{}}},
		{name: "objective", tasks: 1, of: []esl.Policy{place.Objective{By: place.Leftover}}},
		{name: "near", tasks: 1, of: []esl.Policy{place.Near{To: "data"}}},
		{name: "limit", tasks: 2, of: []esl.Policy{admission.Limit{AtOnce: 2}}},
		{name: "elastic", tasks: 2, of: []esl.Policy{room.Elastic{Min: 1}}},
		{name: "preempt", tasks: 1, of: []esl.Policy{room.Preempt{}}, edit: urgent},
		{name: "migrate", tasks: 1, of: []esl.Policy{room.Migrate{}}},
		{name: "stay", tasks: 1, of: []esl.Policy{room.Stay{}}},
		{name: "aging", tasks: 1, of: []esl.Policy{turn.Aging{}}},
		{name: "shortest", tasks: 1, of: []esl.Policy{turn.Shortest{}}, edit: lasting},
		{name: "earliest-deadline", tasks: 1, of: []esl.Policy{turn.EarliestDeadline{}}, edit: due},
		{name: "queue", tasks: 1, shared: admission.Queue{Limit: 100_000}},
		{name: "fair-queue", tasks: 1, shared: admission.FairQueue{Limit: 10, Anyone: 1}},
		{name: "semaphore", tasks: 1, shared: admission.Semaphore{Limit: 5}},
		{name: "least-attained", tasks: 1, shared: room.LeastAttained{}},
		{name: "quiet", tasks: 1, shared: quiet.Quiet{}},
		{name: "fair-share", tasks: 1, shared: share.FairShare{Anyone: 1, Over: []string{string(types.CPU)}}},
	}
}

// declare declares the shared policy, if it is one.
func (p policy) declare(ctx context.Context, client *esl.Client) error {
	if p.shared == nil {
		return nil
	}
	return client.Declare(ctx, p.name, p.shared, "")
}

// tenants is how many users share.
const tenants = 10

// ofJob returns the policies of the i-th job.
func (p policy) ofJob(i int) []esl.Policy {
	if p.shared == nil {
		return p.of
	}
	use := esl.Use{Name: p.name}
	if p.name == "fair-share" || p.name == "fair-queue" {
		use.As = "t" + string(rune('a'+i%tenants))
	}
	return []esl.Policy{use}
}

// chosen returns the policies that a list of names has; all if it is empty. mixed is none of them.
func chosen(list string) (some []policy, mix bool, err error) {
	all := policies()
	if list == "" {
		return all, true, nil
	}
	var known []string
	for _, p := range all {
		known = append(known, p.name)
	}
	for _, name := range strings.Split(list, ",") {
		if name = strings.TrimSpace(name); name == mixed {
			mix = true
			continue
		}
		i := slices.Index(known, name)
		if i < 0 {
			return nil, false, types.Errorf(types.Invalid, "policies: %.60q is unknown: use some of %s, %s", name, strings.Join(known, ", "), mixed)
		}
		some = append(some, all[i])
	}
	return some, mix, nil
}
