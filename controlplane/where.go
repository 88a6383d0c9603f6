package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/escher-sched/escher/types"
)

// Where is the location of a resource. The zero value means every node, present and future.
type Where struct {
	// Nodes are names of nodes. Each gets a capacity of its own, which overrides that of every
	// node.
	Nodes []string
	// Labels select the nodes that have all of them: once among Nodes, or, without Nodes, every
	// such node, present and future.
	Labels []types.Label
	// Among selects nodes, once, instead of Nodes and Labels. cluster.Where makes one from the
	// availability of resources.
	Among func(ctx context.Context, c *Client) ([]string, error)
	// Cluster makes the resource one pool for the whole cluster. Requests then draw on it alone,
	// wherever the task runs.
	Cluster bool
}

// OnNode returns the location of the named nodes.
func OnNode(names ...string) Where { return Where{Nodes: names} }

// OnEvery returns the location of every node with these labels, present and future.
func OnEvery(labels ...types.Label) Where { return Where{Labels: labels} }

// InCluster returns the location of one pool for the whole cluster.
func InCluster() Where { return Where{Cluster: true} }

// String returns the location in words.
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
		return "on every node with " + types.LabelsText(w.Labels)
	}
	return "on every node"
}

// once reports whether the location selects nodes once, which get keys of their own.
func (w Where) once() bool { return len(w.Nodes) > 0 || w.Among != nil }

// validate does every check that does not need the cluster.
func (w Where) validate() error {
	var errs []error
	ways := 0
	for _, set := range []bool{len(w.Nodes)+len(w.Labels) > 0, w.Among != nil, w.Cluster} {
		if set {
			ways++
		}
	}
	if ways > 1 {
		errs = append(errs, types.Errorf(types.Invalid, "where: nodes or labels, a choice and the cluster exclude each other: give one of them"))
	}
	if n := len(w.Nodes); n > types.MaxSelected {
		return types.Errorf(types.Invalid, "where.nodes: has %d: at most %d are allowed: select by label, or say every node", n, types.MaxSelected)
	}
	for i, name := range w.Nodes {
		field := fmt.Sprintf("where.nodes[%d]", i)
		errs = append(errs, types.ValidateName(field, name))
		if slices.Contains(w.Nodes[:i], name) {
			errs = append(errs, types.Errorf(types.Invalid, "%s: %q is named twice: name it once", field, name))
		}
	}
	for i, l := range w.Labels {
		if l.Value == "" {
			errs = append(errs, types.Errorf(types.Invalid, "where.labels[%d].value: is empty: give the value that label %q must have", i, l.Name))
		}
	}
	errs = append(errs, types.ValidateLabels("where.labels", w.Labels))
	return invalid(errs)
}

// invalid joins the errors that are not nil into one of class Invalid; nil if there are none.
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
