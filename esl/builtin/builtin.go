package builtin

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/esl/share"
)

// Kinds returns the built-in policies.
func Kinds() esl.Kinds {
	return esl.Kinds{}.With(
		func() esl.Policy { return room.Aging{} },
		func() esl.Policy { return place.Apart{} },
		func() esl.Policy { return place.Balance{} },
		func() esl.Policy { return place.Balanced{} },
		func() esl.Policy { return place.Colocate{} },
		func() esl.Policy { return place.ElasticBalance{} },
		func() esl.Policy { return room.Elastic{} },
		func() esl.Policy { return room.Migrate{} },
		func() esl.Policy { return place.Near{} },
		func() esl.Policy { return place.Objective{} },
		func() esl.Policy { return place.Pack{} },
		func() esl.Policy { return place.Packed{} },
		func() esl.Policy { return place.Placed{} },
		func() esl.Policy { return room.Preempt{} },
		func() esl.Policy { return place.Prefer{} },
		func() esl.Policy { return room.Stay{} },
		func() esl.Policy { return place.Spread{} },
		func() esl.Policy { return gang.Gang{} },
		func() esl.Policy { return admission.After{} },
		func() esl.Policy { return admission.Barrier{} },
		func() esl.Policy { return admission.Semaphore{} },
		func() esl.Policy { return admission.Holds{} },
		func() esl.Policy { return admission.Queue{} },
		func() esl.Policy { return admission.Queued{} },
		func() esl.Policy { return admission.FairQueue{} },
		func() esl.Policy { return admission.Flow{} },
		func() esl.Policy { return share.FairShare{} },
		func() esl.Policy { return share.Share{} },
	)
}

// New returns a Client that knows the built-in policies.
func New(c *controlplane.Client) *esl.Client { return &esl.Client{Client: c, Kinds: Kinds()} }
