package esl

import (
	"context"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Declare creates a shared policy, or changes the one of that id. The policy and what it creates
// last until it is withdrawn, or until session ends if one is given.
//
// Precondition: the id is a job's, because names of created objects begin with it; or session is
// given and the policy of that id lasts until withdrawn. AlreadyExists: a resource that a new
// policy creates exists and has another owner.
func (c *Client) Declare(ctx context.Context, id string, p Shared, session string) error {
	fail := func(err error) error { return types.Errorf(types.ClassOf(err), "declare %s %s: %w", p.Kind(), id, err) }
	if err := CheckID(id); err != nil {
		return fail(err)
	}
	one, err := Stored(p)
	if err != nil {
		return fail(err)
	}
	sets, err := Declared(id, p)
	if err != nil {
		return fail(err)
	}
	jobs, err := c.IDs(ctx, controlplane.Jobs, id, 1)
	if err != nil {
		return fail(err)
	}
	is, revision, err := c.Policies(ctx, id)
	switch {
	case err != nil && !types.Is(err, types.NotFound):
		return fail(err)
	case is.Job != "" || slices.Contains(jobs, id):
		return fail(types.Errorf(types.Precondition, "there is a job of that id: choose another id"))
	case err == nil && is.Session == "" && session != "":
		return fail(types.Errorf(types.Precondition, "it lasts until it is withdrawn, with what it has made: withdraw it before it is declared to end with a session"))
	}
	// Objects of a policy of another kind do not belong to this one.
	fresh := err != nil || is.Policies[0].Kind != p.Kind()
	noJob := controlplane.ReadSet{controlplane.JobKey(c.Namespace(), id): 0}
	t := c.Begin(noJob).SetPolicies(id, types.Policies{Session: session, Policies: []types.Policy{one}}, revision)
	for _, s := range sets {
		if fresh {
			t.IfNoResource(s.Name, id)
		}
		t.SetResource(s.Name, s.Capacity, s.Where, s.Options)
	}
	if _, err := t.Commit(ctx); err != nil {
		return fail(err)
	}
	return nil
}

// Declared returns the resources that a shared policy creates when it is declared, and that end
// with it. Errors are those of its Declare.
func Declared(id string, p Shared) ([]controlplane.Resource, error) {
	sets, err := p.Declare(id)
	if err != nil {
		return nil, err
	}
	label := Labels([]types.Policy{{Kind: p.Kind()}})[0]
	return ofPolicy(sets, OwnName(id, label, ""), id), nil
}

// ofPolicy returns sets with the policy as owner of those named after it that have no lifetime. So
// one transaction ends all of them, however many there are.
func ofPolicy(sets []controlplane.Resource, prefix, id string) []controlplane.Resource {
	out := slices.Clone(sets)
	for i := range out {
		s := &out[i]
		removed := s.Capacity == 0 && !s.Options.Declare
		if !removed && s.Options.Lifetime == types.Forever && ofName(s.Name, prefix) {
			s.Options.Lifetime, s.Options.Owner = types.OfPolicy, id
		}
	}
	return out
}

// ofName reports whether a name is the policy's own, or that of an object it creates.
func ofName(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	return ok && (rest == "" || rest[0] == '.')
}

// EndWith makes the resources and reservations of the plan end with the shared policy.
func (p *Plan) EndWith(prefix, id string) {
	p.Set = ofPolicy(p.Set, prefix, id)
	p.Reserve = slices.Clone(p.Reserve)
	for i := range p.Reserve {
		if r := &p.Reserve[i]; r.Session == "" && r.Job == "" && r.Policy == "" && ofName(r.ID, prefix) {
			r.Policy = id
		}
	}
}
