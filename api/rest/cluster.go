package rest

import (
	"context"
	"net/http"
	"slices"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/api/reasons"
	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/scheduler/explain"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// ofCluster is the namespace for which the objects of the cluster are read. What is its own is left out.
const ofCluster = "default"

// cluster registers the operations on nodes, namespaces, and the state as a whole.
func (s *service) cluster() {
	add(s, operation{http.MethodGet, "/v1/nodes", "listNodes", "List the nodes, with what they have and what is in use", "cluster"},
		func(ctx context.Context, in *Listing) (page[cluster.NodeState], error) {
			selects, err := in.selects()
			if err != nil {
				return page[cluster.NodeState]{}, err
			}
			state, err := cluster.Read(ctx, s.cfg.Store, ofCluster)
			if err != nil {
				return page[cluster.NodeState]{}, err
			}
			nodes := slices.DeleteFunc(state.Nodes, func(n cluster.NodeState) bool { return !selects(types.LabelMap(n.Labels)) })
			for i := range nodes {
				nodes[i] = physical(nodes[i])
			}
			return paged(&in.Part, state.Revision, nodes, func(n cluster.NodeState) string { return n.Name }), nil
		})
	add(s, operation{http.MethodGet, "/v1/nodes/{node}", "getNode", "Describe a node", "cluster"},
		func(ctx context.Context, in *struct {
			Node string `path:"node" doc:"the name of the node"`
		},
		) (cluster.NodeState, error) {
			state, err := cluster.Read(ctx, s.cfg.Store, ofCluster)
			if err != nil {
				return cluster.NodeState{}, err
			}
			if n := state.Node(in.Node); n != nil {
				return physical(*n), nil
			}
			return cluster.NodeState{}, types.Errorf(types.NotFound, "node %s: there is no such node: GET /v1/nodes lists all", types.Cut(in.Node, types.MaxName))
		})
	add(s, operation{http.MethodGet, "/v1/namespaces", "listNamespaces", "List the namespaces that have settings", "cluster"},
		func(ctx context.Context, in *Part) (page[document.Namespace], error) {
			view, err := cluster.ReadView(ctx, s.cfg.Store, controlplane.Prefix(controlplane.Namespaces))
			if err != nil {
				return page[document.Namespace]{}, err
			}
			var all []document.Namespace
			for name, n := range view.Namespaces {
				may := access.From(ctx).May(rights.Need{Verb: rights.Read, Kind: rights.Namespaces}, name) == nil
				if n.V != nil && may {
					all = append(all, document.NamespaceOf(&controlplane.Namespace{Name: name, Revision: n.Mod, Namespace: *n.V}))
				}
			}
			return paged(in, view.Revision, all, func(n document.Namespace) string { return n.Name }), nil
		})
	add(s, operation{http.MethodGet, "/v1/namespaces/{namespace}/state", "getState", "Read the state of the cluster as a namespace sees it: its nodes and all resources", "cluster"},
		func(ctx context.Context, in *struct {
			InNamespace
			Reads bool `query:"reads" doc:"adds the revision of each key that it was read from, for the if of a transaction"`
		},
		) (requests.State, error) {
			direct, err := s.direct(ctx, in.Namespace)
			if err != nil {
				return requests.State{}, err
			}
			return direct.State(ctx, in.Reads)
		})
	s.explain("/v1/nodes/{id}/why", "explainNode", "Explain what can be placed on a node", "cluster", why.KindNode, controlplane.Nodes)
}

// physical leaves out the ephemeral resources of a node.
func physical(n cluster.NodeState) cluster.NodeState {
	n.Resources = slices.DeleteFunc(slices.Clone(n.Resources), func(a cluster.Amounts) bool { return !types.IsPhysical(a.Name) })
	return n
}

// explain registers an operation that explains the state of an object of a kind.
func (s *service) explain(path, id, summary, tag string, kind why.Kind, stored controlplane.Kind) {
	op := operation{http.MethodGet, path, id, summary, tag}
	do := func(ctx context.Context, ns, id string) (reasons.Explained, error) {
		client, err := s.client(ctx, ns)
		if err != nil {
			return reasons.Explained{}, err
		}
		if stored != controlplane.Nodes {
			if id, err = client.ResolveKind(ctx, stored, id); err != nil {
				return reasons.Explained{}, err
			}
		}
		select {
		case s.explaining <- struct{}{}:
			defer func() { <-s.explaining }()
		case <-ctx.Done():
			return reasons.Explained{}, types.Errorf(types.Unavailable, "explain %s %s: too many explanations are asked for at once: %w", kind, id, ctx.Err())
		}
		now := s.cfg.Now()
		e, view, err := explain.Why(ctx, s.cfg.Store, explain.Subject{Kind: kind, Namespace: ns, ID: id}, now)
		if err != nil {
			return reasons.Explained{}, err
		}
		x, err := reasons.Explain(ctx, client, e, view, now, s.cfg.Voice)
		if err == nil && stored != controlplane.Nodes {
			x.Closed, err = reasons.ClosedText(ctx, client, s.cfg.Voice)
		}
		if err != nil {
			return x, err
		}
		return hide(ctx, ns, view, x)
	}
	if stored == controlplane.Nodes {
		add(s, op, func(ctx context.Context, in *struct {
			ID string `path:"id" doc:"the name of the node"`
		},
		) (reasons.Explained, error) {
			return do(ctx, ofCluster, in.ID)
		})
		return
	}
	add(s, op, func(ctx context.Context, in *ByID) (reasons.Explained, error) { return do(ctx, in.Namespace, in.ID) })
}
