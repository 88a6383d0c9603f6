package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/escher-sched/escher/types"
)

// Where says where a resource is. The zero value is every node, present and
// future.
type Where struct {
	// Nodes are names of nodes: each gets a capacity of its own, which overrides
	// that of every node.
	Nodes []string
	// Labels pick the nodes that have all of them: with Nodes, among these and
	// once; without, every node, present and future.
	Labels []types.Label
	// Among picks the nodes, once, instead of Nodes and Labels. Package cluster
	// makes one of what is to be available: cluster.Where.
	Among func(ctx context.Context, c *Client) ([]string, error)
	// Cluster makes it one pool for the whole cluster: requests of the resource
	// then draw on it alone, wherever the task runs.
	Cluster bool
}

// OnNode is the nodes of these names.
func OnNode(names ...string) Where { return Where{Nodes: names} }

// OnEvery is every node with these labels, present and future.
func OnEvery(labels ...types.Label) Where { return Where{Labels: labels} }

// InCluster is one pool for the whole cluster.
func InCluster() Where { return Where{Cluster: true} }

// String says it in words.
func (w Where) String() string {
	switch {
	case w.Cluster:
		return "in the cluster"
	case w.Among != nil:
		return "on the nodes chosen"
	case len(w.Nodes) == 1:
		return "on node " + w.Nodes[0]
	case w.once():
		return fmt.Sprintf("on %d nodes", len(w.Nodes))
	case len(w.Labels) > 0:
		return "on every node with " + labelTexts(w.Labels)
	}
	return "on every node"
}

func labelTexts(labels []types.Label) string {
	texts := make([]string, len(labels))
	for i, l := range labels {
		texts[i] = l.Name + "=" + l.Value
	}
	return strings.Join(texts, ",")
}

// once reports whether it picks nodes once, which get keys of their own.
func (w Where) once() bool { return len(w.Nodes) > 0 || w.Among != nil }

// validate checks everything that can be checked without the cluster.
func (w Where) validate() error {
	var errs []error
	ways := 0
	for _, set := range []bool{len(w.Nodes)+len(w.Labels) > 0, w.Among != nil, w.Cluster} {
		if set {
			ways++
		}
	}
	if ways > 1 {
		errs = append(errs, types.Errorf(types.Invalid, "where: says nodes or labels, a choice and the cluster at once: give one of them"))
	}
	if n := len(w.Nodes); n > types.MaxSelected {
		return types.Errorf(types.Invalid, "where.nodes: has %d: at most %d are allowed: select by label, or say every node", n, types.MaxSelected)
	}
	if n := len(w.Labels); n > types.MaxLabels {
		return types.Errorf(types.Invalid, "where.labels: has %d: at most %d are allowed, drop some", n, types.MaxLabels)
	}
	for i, name := range w.Nodes {
		field := fmt.Sprintf("where.nodes[%d]", i)
		errs = append(errs, types.ValidateName(field, name))
		if slices.Contains(w.Nodes[:i], name) {
			errs = append(errs, types.Errorf(types.Invalid, "%s: %q is named twice: name it once", field, name))
		}
	}
	for i, l := range w.Labels {
		field := fmt.Sprintf("where.labels[%d]", i)
		errs = append(errs, types.ValidateName(field+".name", l.Name))
		if len(l.Value) > types.MaxText {
			errs = append(errs, types.Errorf(types.Invalid, "%s.value: has %d bytes: at most %d are allowed, shorten it", field, len(l.Value), types.MaxText))
		}
		if l.Value == "" {
			errs = append(errs, types.Errorf(types.Invalid, "%s.value: is empty: give the value that label %q must have", field, l.Name))
		}
	}
	return invalid(errs)
}

// invalid makes one Invalid error of those that are not nil, and nil of none.
func invalid(errs []error) error {
	const most = 20
	var out []error
	for _, err := range errs {
		if err != nil {
			out = append(out, err)
		}
	}
	if more := len(out) - most; more > 0 {
		out = append(out[:most], fmt.Errorf("and %d more", more))
	}
	if len(out) == 0 {
		return nil
	}
	return types.Errorf(types.Invalid, "%w", errors.Join(out...))
}
