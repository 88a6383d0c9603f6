package relabel

import (
	"cmp"
	"slices"

	"github.com/escher-sched/escher/types"
)

// Apply changes the labels of a node for an administrator: the node's agent does not undo it. It
// reports whether anything changed. Precondition: a label has another value, and Overwrite is false. Invalid: a label is wrong, or the node would have too many.
// After an error the node is unchanged.
func Apply(n *types.Node, c Change) (changed bool, err error) {
	if err := c.validate(n); err != nil {
		return false, err
	}
	next := types.Node{Labels: slices.Clone(n.Labels), SetLabels: slices.Clone(n.SetLabels), HiddenLabels: slices.Clone(n.HiddenLabels)}
	for _, l := range c.Add {
		if !slices.Contains(n.Labels, l) {
			hide(&next, l.Name)
			next.SetLabels = append(next.SetLabels, l)
			next.Labels = append(next.Labels, l)
			changed = true
		}
	}
	for _, key := range c.Remove {
		changed = changed || hasKey(n.Labels, key)
		hide(&next, key)
	}
	if len(next.Labels) > types.MaxLabels {
		return false, types.Errorf(types.Invalid, "labels: has %d then: at most %d are allowed, remove some", len(next.Labels), types.MaxLabels)
	}
	n.Labels, n.SetLabels, n.HiddenLabels = sortedByKey(next.Labels), sortedByKey(next.SetLabels), sortedByKey(next.HiddenLabels)
	return changed, nil
}

// validate checks a change of a node.
func (c Change) validate(n *types.Node) error {
	if err := types.ValidateLabels("label", c.Add); err != nil {
		return err
	}
	for _, l := range c.Add {
		if is, ok := labeled(n, l.Name); ok && is != l.Value && !c.Overwrite {
			return types.Errorf(types.Precondition, "label.%s: is %q already: overwrite it to make it %q", l.Name, is, l.Value)
		}
	}
	for _, key := range c.Remove {
		if err := types.ValidateLabelKey("label", key); err != nil {
			return err
		}
		if hasKey(c.Add, key) {
			return types.Errorf(types.Invalid, "label.%s: is added and removed at once: do one of them", key)
		}
	}
	return nil
}

// labeled returns the value of a label, and whether there is one.
func labeled(n *types.Node, key string) (value string, ok bool) {
	for _, l := range n.Labels {
		if l.Name == key {
			return l.Value, true
		}
	}
	return "", false
}

// hide removes the label with a key. It remembers the label if it is one of the agent's.
func hide(n *types.Node, key string) {
	is := func(l types.Label) bool { return l.Name == key }
	if i := slices.IndexFunc(n.Labels, is); i >= 0 && !hasKey(n.SetLabels, key) {
		n.HiddenLabels = append(n.HiddenLabels, n.Labels[i])
	}
	n.Labels, n.SetLabels = slices.DeleteFunc(n.Labels, is), slices.DeleteFunc(n.SetLabels, is)
}

// Inherit gives a node that its agent registers again the labels that administrators have changed
// since. was is the node as stored. Labels must hold the agent's labels.
func Inherit(n, was *types.Node) {
	given := n.Labels
	changed := append(slices.Clone(was.SetLabels), was.HiddenLabels...)
	n.SetLabels, n.HiddenLabels = slices.Clone(was.SetLabels), nil
	for _, l := range given {
		if hasKey(changed, l.Name) {
			n.HiddenLabels = append(n.HiddenLabels, l)
		}
	}
	n.Labels = sortedByKey(append(without(given, changed), was.SetLabels...))
	sortedByKey(n.HiddenLabels)
}

func hasKey(labels []types.Label, key string) bool {
	return slices.ContainsFunc(labels, func(l types.Label) bool { return l.Name == key })
}

// without returns the labels whose keys are not among those of others.
func without(labels, others []types.Label) []types.Label {
	return slices.DeleteFunc(slices.Clone(labels), func(l types.Label) bool { return hasKey(others, l.Name) })
}

func sortedByKey(labels []types.Label) []types.Label {
	slices.SortFunc(labels, func(a, b types.Label) int { return cmp.Compare(a.Name, b.Name) })
	return labels
}
