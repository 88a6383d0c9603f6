package manifest

import (
	"context"
	"fmt"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/types"
)

// NodesOf returns the location of the nodes that a selector selects, for SetResource. A selector with
// Available selects them once, when the resource is set.
func NodesOf(sel types.Selector) controlplane.Where {
	if len(sel.Available) == 0 {
		return controlplane.Where{Nodes: sel.Nodes, Labels: sel.Labels}
	}
	return controlplane.Where{Among: func(ctx context.Context, c *controlplane.Client) ([]string, error) {
		return available(ctx, c, sel)
	}}
}

// available returns the nodes that have everything free that a selector asks for.
func available(ctx context.Context, c *controlplane.Client, sel types.Selector) ([]string, error) {
	if err := sel.Available.Validate("where.available"); err != nil {
		return nil, err
	}
	s, err := cluster.ClusterState(ctx, c)
	if err != nil {
		return nil, err
	}
	for i, name := range sel.Nodes {
		if s.Node(name) == nil {
			return nil, types.Errorf(types.Invalid, "where.nodes[%d]: %q is unknown: name one of the %d registered nodes", i, name, len(s.Nodes))
		}
	}
	var names []string
	for _, name := range match.WithFree(s.View(), s.Namespace, sel.Available) {
		if n := s.View().Nodes[name]; sel.Matches(name, n.Info.V) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, types.Errorf(types.Precondition, "where.available: none of %d nodes has %s free: ask for less, or wait", len(s.Nodes), amounts(sel.Available))
	}
	return names, nil
}

func amounts(requests types.Requests) string {
	texts := make([]string, len(requests))
	for i, r := range requests {
		texts[i] = fmt.Sprintf("%s %s", r.Amount.Format(types.ResourceID(r.Name)), r.Name)
	}
	return strings.Join(texts, ", ")
}
