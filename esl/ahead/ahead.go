package ahead

import (
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// ReserveAhead is a reservation for a time. It is declared, and the reservation has its id. From then on
// the reservation collects on the nodes that will have the capacity the soonest. Until At only tasks that
// end before may use what it has collected: backfill. It is complete at At at the earliest, because its
// first bundle requests a pool that is closed until then. Nothing is evicted for it. It ends after For.
type ReserveAhead struct {
	// Bundles are what is locked.
	Bundles []manifest.Bundle `json:"bundles" desc:"what is locked, all or none" some:""`
	// At is when it begins, and For how long it lasts.
	At  string            `json:"at" desc:"when it begins, such as 2026-12-01T08:00:00Z" is:"text"`
	For manifest.Duration `json:"for" desc:"how long it lasts from then on" zero:"leaves no time: give a longer one"`
}

// Kind returns reserve-ahead.
func (ReserveAhead) Kind() string { return "reserve-ahead" }

// Describe says what the policy does.
func (ReserveAhead) Describe() esl.Description {
	return esl.Description{Does: "locks bundles from a time on: until then only tasks that end before may use that capacity", OnlyDeclared: true}
}

// Apply refuses: tasks draw on the reservation by their requests.
func (ReserveAhead) Apply(*esl.Group) error {
	return esl.Invalid("reserve-ahead is shared: declare it under an id, and have tasks request some of the reservation of that name, such as gpu@NAME")
}

// window returns when the reservation begins and ends.
func (p ReserveAhead) window() (at, end time.Time, err error) {
	if at, err = time.Parse(time.RFC3339, p.At); err != nil || at.Before(time.Unix(0, 0)) || at.Year() > lastYear {
		return at, end, esl.Invalid("at: %q is not a time: give one such as 2026-12-01T08:00:00Z", p.At)
	}
	return at, at.Add(time.Duration(p.For)), nil
}

// lastYear is the last year that the store knows, with a margin for durations.
const lastYear = 2200

// Validate checks the parameters.
func (p ReserveAhead) Validate() error {
	_, _, err := p.window()
	r := p.reservation("", nil, time.Time{})
	return esl.Join(err, r.Validate(),
		esl.InvalidIf(p.For <= 0 || time.Duration(p.For) > types.MaxDuration, "for: %s is out of range: give more than 0 and up to %s", time.Duration(p.For), types.MaxDuration))
}

// reservation returns the reservation, which collects on the given nodes until at, and waits for a gate.
func (p ReserveAhead) reservation(gate string, on []string, at time.Time) types.Reservation {
	var r types.Reservation
	for i, b := range p.Bundles {
		one := b.Bundle()
		if i == 0 && gate != "" {
			one.Requests = one.Requests.Plus(types.NewRequests(map[string]types.Quantity{gate: esl.One}))
		}
		r.Bundles = append(r.Bundles, one)
	}
	if on != nil {
		r.Collect = &types.Collect{On: on, LendUntil: at.UnixNano()}
	}
	return r
}

// Declare returns the closed gate.
func (p ReserveAhead) Declare(id string) ([]controlplane.Resource, error) {
	return []controlplane.Resource{{Name: esl.OwnName(id, p.Kind(), ""), Where: controlplane.InCluster(), Options: controlplane.SetOptions{Declare: true}}}, p.Validate()
}

// ClusterScoped is set: its nodes are lost, and others join.
func (ReserveAhead) ClusterScoped() {}

// Pace bounds how often Next is called.
func (ReserveAhead) Pace() time.Duration { return time.Second }

// again is when to look for nodes again after there were none.
const again = 10 * time.Second

// Next makes the reservation, lets it be complete from its time on, and ends it.
func (p ReserveAhead) Next(s *esl.State) esl.Plan {
	at, end, err := p.window()
	r := s.Reservation(s.ID)
	there := taskset.Locked(r)
	switch {
	case err != nil || there && r.Info.V.Policy != s.ID: // a reservation of that name was made by hand
		return esl.Plan{Idle: "a reservation of its name was made by other means, or its time is wrong"}
	case !s.Now.Before(end):
		if there {
			return esl.Plan{Unreserve: []string{s.ID}, Reason: "its time is over"}
		}
		return esl.Plan{Idle: "its time is over"}
	case there && p.outdated(s, r, at):
		return esl.Plan{Unreserve: []string{s.ID}, Reason: "it has to be elsewhere, or at another time"}
	case !there && r != nil && r.Grant.V != nil:
		return esl.Plan{RequeueAfter: s.Now.Add(time.Second), Idle: "its former reservation is being released"}
	case !there:
		on := soonest(s, p.reservation("", nil, at).Bundles, at)
		if on == nil {
			return esl.Plan{RequeueAfter: s.Now.Add(again), Idle: "no node is large enough for one of the bundles"}
		}
		made := p.reservation(s.Own(""), on, at)
		made.Policy = s.ID
		return esl.Plan{Reserve: []controlplane.Reservation{{ID: s.ID, Reservation: made}}, Reason: "it collects until " + at.UTC().Format(time.RFC3339)}
	}
	open := types.Quantity(taskset.BoolInt(!s.Now.Before(at))) * esl.One
	if !s.HasInCluster("", open) {
		return esl.Plan{Set: []controlplane.Resource{s.InCluster("", open)}, Reason: "its time has come", RequeueAfter: end}
	}
	if s.Now.Before(at) {
		return esl.Plan{RequeueAfter: at, Idle: "its time has not come"}
	}
	return esl.Plan{RequeueAfter: end, Idle: "it lasts until then"}
}

// outdated reports whether the reservation must be made again: it is not granted yet, and a node of it
// takes no tasks, or something else was declared.
func (p ReserveAhead) outdated(s *esl.State, r *cluster.Reservation, at time.Time) bool {
	if taskset.Granted(r) || r.Info.V.Collect == nil {
		return false
	}
	wants, collects := p.reservation(s.Own(""), nil, at), r.Info.V.Collect
	return taskset.AnyLost(s, slices.Values(collects.On)) || collects.LendUntil != at.UnixNano() ||
		taskset.BundlesText(s, r.Info.V.Bundles) != taskset.BundlesText(s, wants.Bundles)
}
