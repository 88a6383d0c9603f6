package cmdutil

import (
	"context"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// PortsOf reads the ports of an attempt of a task on its node, by name; none if the task has left the
// node.
func PortsOf(ctx context.Context, client *controlplane.Client, spec *types.Spec, node, id string, attempt int) (map[string]int, error) {
	page, err := client.Store().List(ctx, controlplane.ListOptions{Key: controlplane.BindingKey(node, client.Namespace(), id, attempt)})
	var b types.Binding
	if err != nil || len(page.KVs) == 0 || !controlplane.Read(page.KVs[0], &b) {
		return nil, err
	}
	return spec.PortNumbers(b.Ports()), nil
}
