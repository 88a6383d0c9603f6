package builtin

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/ahead"
	"github.com/escher-sched/escher/esl/estimate"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/lend"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/quiet"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/esl/turn"
)

// Policies returns an empty policy of each built-in kind. Flags add policies to a job in this order.
func Policies() []esl.Policy {
	return []esl.Policy{
		estimate.Estimate{},
		gang.Gang{},
		place.Colocate{},
		room.Elastic{},
		place.Apart{},
		place.Spread{},
		place.Balance{},
		place.ElasticBalance{},
		place.Pack{},
		room.Migrate{},
		room.Preempt{},
		room.Stay{},
		room.LeastAttained{},
		turn.Aging{},
		turn.Shortest{},
		turn.EarliestDeadline{},
		place.Near{},
		place.Prefer{},
		place.Objective{},
		place.Interleave{},
		admission.Queue{},
		admission.FairQueue{},
		admission.Semaphore{},
		share.FairShare{},
		ahead.ReserveAhead{},
		lend.Oversubscribe{},
		quiet.Quiet{},
		esl.Use{},
		admission.Limit{},
		admission.After{},
		admission.Barrier{},
	}
}

// Kinds returns the built-in kinds.
func Kinds() esl.Kinds {
	var kinds []func() esl.Policy
	for _, empty := range Policies() {
		kinds = append(kinds, func() esl.Policy { return empty })
	}
	return esl.Kinds{}.With(kinds...)
}

// New returns a Client that knows the built-in policies.
func New(c *controlplane.Client) *esl.Client { return &esl.Client{Client: c, Kinds: Kinds()} }
