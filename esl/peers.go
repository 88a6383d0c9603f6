package esl

import (
	"slices"

	"github.com/escher-sched/escher/types"
)

// peered is a Policy whose tasks know the addresses of each other: see types.Peers.
type peered interface{ Peers() types.Peers }

// setPeers sets the Peers of tasks that have none, as the first policy says that has an opinion. If
// every registered node has ports to give, a task without a port gets one. The tasks of a job with
// more than MaxPeers do not follow each other.
func (g *Group) setPeers() {
	i := slices.IndexFunc(g.policies, func(p Policy) bool { _, ok := p.(peered); return ok })
	if i < 0 {
		return
	}
	peers := g.policies[i].(peered).Peers()
	if len(g.Tasks) > types.MaxPeers && !peers.Listed() {
		return
	}
	ports := len(g.Nodes) > 0
	for _, n := range g.Nodes {
		ports = ports && n != nil && n.PortFirst > 0
	}
	changed := make(map[*types.Spec]*types.Spec) // tasks share specs
	for k := range g.Tasks {
		t := &g.Tasks[k]
		if t.Spec == nil || t.Spec.Peers != types.NoPeers {
			continue // The spec is stored, or the job says so itself.
		}
		spec := changed[t.Spec]
		if spec == nil {
			own := *t.Spec
			own.Peers = peers
			if ports && len(own.Ports) == 0 {
				own.Ports = []types.TaskPort{{Name: types.PeerPort}}
			}
			spec, changed[t.Spec] = &own, &own
		}
		if len(spec.Ports) > len(t.Spec.Ports) {
			t.Task.Requests = spec.WithImplied(t.Task.Requests)
		}
		t.Spec = spec
	}
}

// WithoutPeers returns a task and its spec without the additions of setPeers to the wanted spec.
func WithoutPeers(t types.Task, is, want *types.Spec) (types.Task, *types.Spec) {
	if is.Peers == want.Peers || want.Peers != types.NoPeers {
		return t, is
	}
	own := *is
	own.Peers = types.NoPeers
	if len(want.Ports) == 0 && len(own.Ports) == 1 && own.Ports[0].Name == types.PeerPort {
		own.Ports = nil
		t.Requests = slices.DeleteFunc(slices.Clone(t.Requests), func(x types.Request) bool { return x.Name == string(types.Port) })
	}
	return t, &own
}

// needsNodes reports whether a policy depends on the registered nodes.
func needsNodes(p Policy) bool {
	if _, ok := p.(peered); ok {
		return true
	}
	l, ok := p.(nodesNeeder)
	return ok && l.NeedsNodes()
}
