package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// Rights gives the rights of documents, in the name of a caller.
type Rights struct {
	// Before returns the right that another one of its name would replace, and its revision, which is 0 if
	// there is none. Denied: the caller may not give the new one, or may not change the one before.
	Before func(ctx context.Context, name string, r *types.Right) (before types.Right, revision int64, err error)
	// Give stores rights by their names, all or none. Conflict: one of them is not at its revision.
	Give func(ctx context.Context, rights map[string]types.Right, revisions map[string]int64) error
}

// compareLeading compares what is made before the transaction with its document.
func (d *Decision) compareLeading(ctx context.Context, client *controlplane.Client, c *Change) error {
	if c.Kind == manifest.KindNamespace {
		return c.compareNamespace(ctx, client)
	}
	if err := d.compareRight(ctx, c); err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return nil
}

// compareRight compares a right with its document. It checks that the caller may give it.
func (d *Decision) compareRight(ctx context.Context, c *Change) error {
	if d.rights.Before == nil {
		return types.Errorf(types.Invalid, "kind: rights are given by a server: apply the file by one")
	}
	want := c.doc.Right.Right()
	is, revision, err := d.rights.Before(ctx, c.Name, &want)
	if err != nil {
		return err
	}
	c.was, c.Differences = revision, different(lists(&is), lists(&want))
	if len(c.Differences) == 0 {
		c.Action = Unchanged
	}
	return nil
}

// lists returns the fields of a right as texts, whose order does not count.
func lists(r *types.Right) map[string]string {
	v := manifest.FromRight("", r)
	list := func(all []string) string {
		all = slices.Sorted(slices.Values(all))
		return strings.Join(slices.Compact(all), ", ")
	}
	return map[string]string{"subjects": list(v.Subjects), "role": string(v.Role), "allow": list(v.Allow), "namespaces": list(v.Namespaces)}
}

// setRights gives the rights that differ, all or none.
func (d *Decision) setRights(ctx context.Context) error {
	all, revisions := make(map[string]types.Right), make(map[string]int64)
	for i := range d.Changes {
		if c := &d.Changes[i]; c.Kind == manifest.KindRight && c.Action == Set {
			all[c.Name], revisions[c.Name] = c.doc.Right.Right(), c.was
		}
	}
	if len(all) == 0 {
		return nil
	}
	return d.rights.Give(ctx, all, revisions)
}
