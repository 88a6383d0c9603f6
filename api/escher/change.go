package escher

import (
	"context"
	"errors"
	"maps"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/types"
)

// Change is several changes that are made together or not at all. Its methods add to it. Use it in
// one goroutine, once.
type Change struct {
	client *Client
	t      requests.Transaction
	errs   []error
}

// Change begins a change.
func (c *Client) Change() *Change { return &Change{client: c} }

// If makes it depend on nothing having changed in a state that was read with ForChange: Commit
// returns Conflict else. Read the state again then, and decide again.
func (x *Change) If(s *State) *Change {
	if s == nil || s.reads == nil {
		x.errs = append(x.errs, types.Errorf(types.Invalid, "if: the state lacks what is compared: read it with escher.ForChange()"))
		return x
	}
	if x.t.If == nil {
		x.t.If = maps.Clone(s.reads)
		return x
	}
	for key, revision := range s.reads {
		if was, ok := x.t.If[key]; ok && was != revision {
			x.errs = append(x.errs, types.Errorf(types.Conflict, "if: the states are of two revisions, and differ: read one state"))
		}
		x.t.If[key] = revision
	}
	return x
}

// SetResource adds what Client.SetResource does.
func (x *Change) SetResource(name string, capacity Amount, opts ...ResourceOption) *Change {
	x.t.Set = append(x.t.Set, set(name, capacity, opts))
	return x
}

// Submit adds what Client.Submit does for a job without policies.
func (x *Change) Submit(job Job) *Change {
	x.t.Launch = append(x.t.Launch, job.launch())
	return x
}

// Reserve adds what Client.Reserve does.
func (x *Change) Reserve(r Reservation) *Change {
	x.t.Reserve = append(x.t.Reserve, r)
	return x
}

// Unreserve adds what Client.Unreserve does.
func (x *Change) Unreserve(id string) *Change {
	x.t.Unreserve = append(x.t.Unreserve, id)
	return x
}

// Commit makes the changes, and returns the jobs that it launched, in the order of Submit. Invalid:
// one of them is wrong, or together they are too large. Conflict: something of If has changed.
// Nothing was changed then.
func (x *Change) Commit(ctx context.Context) ([]Launched, error) {
	if err := errors.Join(x.errs...); err != nil {
		return nil, err
	}
	done, err := x.client.requests.Commit(ctx, x.t)
	if err != nil {
		return nil, err
	}
	return done.Launched, nil
}
