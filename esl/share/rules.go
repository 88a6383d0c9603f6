package share

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/quotas"
	"github.com/escher-sched/escher/controlplane/submitter"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// Rules are what shares ask of what users submit: see submitter.Rules. A namespace of which each job
// takes part in shares of another namespace has only tasks and reservations that draw on them.
func Rules(store controlplane.Store) submitter.Rules {
	return func(ctx context.Context) *submitter.Checks {
		c := &checks{ctx: ctx, store: store, settings: make(map[string]*types.Namespace), over: make(map[string][]string)}
		return &submitter.Checks{Payer: Payer, Draws: c.draws, Sets: c.sets, Declares: c.declares}
	}
}

// checks are those of one transaction.
type checks struct {
	ctx   context.Context
	store controlplane.Store
	// settings are those of namespaces, nil for none, and over what policies divide.
	settings map[string]*types.Namespace
	over     map[string][]string
}

// draws returns nil if requests of a namespace draw on each share on which all of its tasks draw, as much as
// they request of their node. What draws on a reservation alone does so already. A reservation has a job:
// no policy would take back what one without has. Denied: they do not.
func (c *checks) draws(ns string, requests types.Requests, reserves bool) error {
	if quotas.Reserved(requests) {
		return nil
	}
	n, err := c.of(ns)
	if err != nil || n == nil {
		return err
	}
	for _, p := range n.Policies {
		if !p.Required {
			continue
		}
		if reserves {
			return types.Errorf(types.Denied, "reservations without a job draw on no share, and each job of namespace %s draws on one of %s: submit a gang, or have an administrator reserve", ns, p.Name)
		}
		over, err := c.divided(p.Name)
		if err != nil {
			return err
		}
		all := requests.Plus(n.Missing(requests))
		as := pathIn(all, p.Name, over)
		full, any := covered(esl.Use{Name: p.Name, As: as}, all, over)
		if !strings.HasPrefix(as, ns+".") || !any || !slices.Equal(full, all) {
			return types.Errorf(types.Denied, "requests: each task of namespace %s draws on a share of %s, as much as it requests of %s, and this one does not: submit it as a job or, in a file, as kind Job, and request some",
				ns, p.Name, strings.Join(over, ", "))
		}
	}
	return nil
}

// sets returns nil if a submitter may set or delete a resource of a namespace. Denied: shares of
// another namespace set it.
func (c *checks) sets(ns, resource string) error {
	if !strings.Contains(resource, esl.Across) {
		return nil
	}
	n, err := c.of(ns)
	if err != nil || n == nil {
		return err
	}
	for _, p := range n.Policies {
		if strings.HasPrefix(resource, poolsOf(p.Name)) {
			return types.Errorf(types.Denied, "it is a share of %s, which alone sets it: leave it as it is", p.Name)
		}
	}
	return nil
}

// declares returns nil if a submitter may put policies of an id. Denied: their objects would have the names of
// those of another namespace, or they would reserve what draws on no share.
func (c *checks) declares(ns, id string, p *types.Policies) error {
	if err := esl.CheckID(id); err != nil {
		return types.Errorf(types.Denied, "policies %s: %w", types.Cut(id, types.MaxName), err)
	}
	reserving := func(p types.Policy) bool { return p.Kind == "reserve-ahead" || p.Kind == "interleave" }
	i := slices.IndexFunc(p.Policies, reserving)
	if i < 0 {
		return nil
	}
	n, err := c.of(ns)
	if err != nil || n == nil {
		return err
	}
	for _, required := range n.Policies {
		if required.Required {
			return types.Errorf(types.Denied, "policies %s: %s reserves capacity that draws on no share, and each job of namespace %s draws on one of %s: leave it out",
				types.Cut(id, types.MaxName), p.Policies[i].Kind, ns, required.Name)
		}
	}
	return nil
}

// of returns the settings of a namespace; nil if it has none.
func (c *checks) of(ns string) (*types.Namespace, error) {
	if n, read := c.settings[ns]; read {
		return n, nil
	}
	kv, err := controlplane.Get(c.ctx, c.store, controlplane.NamespaceKey(ns))
	if err != nil {
		return nil, err
	}
	n := new(types.Namespace)
	if kv.ModRevision == 0 || !controlplane.Read(kv, n) {
		n = nil
	}
	c.settings[ns] = n
	return n, nil
}

// divided returns what shares divide: the default if they are not there, or this program may not read them.
func (c *checks) divided(name string) ([]string, error) {
	if over := c.over[name]; over != nil {
		return over, nil
	}
	at := esl.Named("", name)
	kv, err := controlplane.Get(c.ctx, c.store, controlplane.PoliciesKey(at.Namespace, at.ID))
	if err != nil && !types.Is(err, types.Denied) {
		return nil, err
	}
	var kept types.Policies
	var with struct{ Over []string }
	if err == nil && kv.ModRevision != 0 && controlplane.Read(kv, &kept) && len(kept.Policies) > 0 {
		_ = json.Unmarshal([]byte(kept.Policies[0].With), &with) // what is unreadable divides the default
	}
	c.over[name] = resourcesOf(with.Over)
	return c.over[name], nil
}

// pathIn returns the path of the user on whose share of a policy requests draw, with dots; empty if they draw
// on none.
func pathIn(requests types.Requests, policy string, over []string) string {
	for _, x := range requests {
		rest, ok := strings.CutPrefix(x.Name, poolsOf(policy))
		if !ok {
			continue
		}
		for _, r := range over {
			if path, ok := strings.CutSuffix(rest, "."+inName(policy, r)); ok {
				return path
			}
		}
	}
	return ""
}
