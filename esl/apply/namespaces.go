package apply

import (
	"context"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/quotas"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// compareNamespace compares the settings of a namespace with its document.
func (c *Change) compareNamespace(ctx context.Context, client *controlplane.Client) error {
	want, err := c.doc.Namespace.Settings()
	if err != nil {
		return err
	}
	is, err := client.GetNamespace(ctx, c.Name)
	if err != nil && !types.Is(err, types.NotFound) {
		return err
	}
	there := err == nil
	c.namespace = &is.Namespace
	if there && types.Same(types.Encode(0, &is.Namespace), &want) {
		c.Action = Unchanged
		return nil
	}
	before, err := flat(manifest.FromNamespace(&is.Namespace))
	if err != nil {
		return err
	}
	after, err := flat(manifest.FromNamespace(&want))
	if err != nil {
		return err
	}
	c.Differences = different(before, after)
	return nil
}

// setNamespaces sets the namespaces that differ. Conflict: one has changed since the comparison.
func (d *Decision) setNamespaces(ctx context.Context, client *controlplane.Client) error {
	for i := range d.Changes {
		x := &d.Changes[i]
		if x.Kind != manifest.KindNamespace || x.Action != Set {
			continue
		}
		want, err := x.doc.Namespace.Settings()
		if err != nil {
			return err
		}
		err = quotas.Set(ctx, client, x.Name, func(is *types.Namespace) error {
			want.Extra = is.Extra
			now := types.Encode(0, is)
			if x.namespace != nil && !types.Same(now, x.namespace) && !types.Same(now, &want) {
				return types.Errorf(types.Conflict, "it has changed since: %s", action.PlanAgain.Of())
			}
			*is = want
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
