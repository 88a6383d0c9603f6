package sim

import (
	"fmt"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/scheduler"
)

// describe describes a draft in a line.
func describe(d *scheduler.Transaction) string {
	var parts []string
	for _, b := range d.Binds {
		parts = append(parts, fmt.Sprintf("bind %s#%d→%s", b.Task, b.Attempt, b.Node))
	}
	for _, id := range d.Grants {
		parts = append(parts, "grant "+id.String())
	}
	for _, op := range d.Change.Txn().Ops {
		k, _ := controlplane.Parse(op.Key)
		switch {
		case k.Kind == controlplane.Bindings && op.Delete:
			parts = append(parts, fmt.Sprintf("release %s/%s#%d on %s", k.Namespace, k.ID, k.Attempt, k.Node))
		case k.Kind == controlplane.Grants && op.Delete:
			parts = append(parts, fmt.Sprintf("end grant %s/%s", k.Namespace, k.ID))
		}
	}
	return fmt.Sprintf("%x [%s]", d.Change.Batch>>48, strings.Join(parts, ", "))
}
