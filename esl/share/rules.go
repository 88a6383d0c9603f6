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
func Rules(store controlplane.Store) *submitter.Rules {
	r := rules{store}
	return &submitter.Rules{Payer: Payer, Draws: r.draws, Sets: r.sets}
}

type rules struct{ store controlplane.Store }

// draws returns nil if requests of a namespace draw on each share on which all of its tasks draw, as much as
// they request of their node. What draws on a reservation alone does so already. Denied: they do not.
func (r rules) draws(ctx context.Context, ns string, requests types.Requests) error {
	if quotas.Reserved(requests) {
		return nil
	}
	n, err := r.settings(ctx, ns)
	if err != nil || n == nil {
		return err
	}
	for _, p := range n.Policies {
		if !p.Required {
			continue
		}
		over, err := r.over(ctx, p.Name)
		if err != nil {
			return err
		}
		as := pathIn(requests, p.Name)
		if full, any := covered(esl.Use{Name: p.Name, As: as}, requests, over); as == "" || !any || !slices.Equal(full, requests) {
			return types.Errorf(types.Denied, "requests: each task of namespace %s draws on a share of %s, as much as it requests of %s, and this one does not: submit it as a job or, in a file, as kind Job, and request some",
				ns, p.Name, strings.Join(over, ", "))
		}
	}
	return nil
}

// sets returns nil if a submitter may set or delete a resource of a namespace. Denied: shares of
// another namespace sets it.
func (r rules) sets(ctx context.Context, ns, resource string) error {
	if Payer(resource) == "" {
		return nil
	}
	n, err := r.settings(ctx, ns)
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

// settings are those of a namespace; nil if it has none.
func (r rules) settings(ctx context.Context, ns string) (*types.Namespace, error) {
	kv, err := controlplane.Get(ctx, r.store, controlplane.NamespaceKey(ns))
	n := new(types.Namespace)
	if err != nil || kv.ModRevision == 0 || !controlplane.Read(kv, n) {
		return nil, err
	}
	return n, nil
}

// over returns what shares divide: the default if it is not there, or this program may not read it.
func (r rules) over(ctx context.Context, name string) ([]string, error) {
	at := esl.Named("", name)
	kv, err := controlplane.Get(ctx, r.store, controlplane.PoliciesKey(at.Namespace, at.ID))
	if err != nil && !types.Is(err, types.Denied) {
		return nil, err
	}
	var kept types.Policies
	if err != nil || kv.ModRevision == 0 || !controlplane.Read(kv, &kept) || len(kept.Policies) == 0 {
		return resourcesOf(nil), nil
	}
	var with struct{ Over []string }
	if json.Unmarshal([]byte(kept.Policies[0].With), &with) != nil {
		return resourcesOf(nil), nil
	}
	return resourcesOf(with.Over), nil
}

// pathIn returns the path of the user on whose share of a policy requests draw; empty if they draw on none.
func pathIn(requests types.Requests, policy string) string {
	for _, x := range requests {
		if rest, ok := strings.CutPrefix(x.Name, poolsOf(policy)); ok {
			if i := strings.LastIndexByte(rest, '.'); i > 0 {
				return rest[:i]
			}
		}
	}
	return ""
}
