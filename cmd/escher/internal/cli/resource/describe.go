package resource

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/node"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

const describeHelp = `Shows an ephemeral resource: where it is and how it was set, with what it ends, and the
tasks that hold it or wait with a request for it.

  escher resource describe slot`

// resourceDescription describes an ephemeral resource.
type resourceDescription struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Set are the places where it was set, with its capacity and owner there.
	Set []string `json:"set,omitempty"`
	// Amounts are its amounts at each place.
	Amounts []AmountsRow `json:"amounts"`
	// Holders are the tasks that hold it, and Waiting those that request it and wait.
	Holders []string `json:"holders,omitempty"`
	Waiting []string `json:"waiting,omitempty"`
}

// NewDescribeResource returns the command that describes an ephemeral resource.
func NewDescribeResource(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "describe RESOURCE",
		Short: "Show everything about an ephemeral resource",
		Long:  describeHelp,
		Args:  cmdutil.Exactly("RESOURCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := describe(cmd.Context(), f, args[0])
			if err != nil {
				return err
			}
			return f.Show(d, d.Name, d.Write)
		},
	}
}

// describe describes a resource. NotFound: it is nowhere.
func describe(ctx context.Context, f *cmdutil.Factory, name string) (*resourceDescription, error) {
	if err := types.ValidateEphemeral("RESOURCE", name); err != nil {
		return nil, err
	}
	client, err := f.Client(ctx)
	if err != nil {
		return nil, err
	}
	ns := client.Namespace()
	var prefixes []string
	for _, kind := range append(node.StateKinds(), controlplane.Tasks, controlplane.Statuses, controlplane.Jobs) {
		prefixes = append(prefixes, controlplane.Prefix(kind))
	}
	view, err := cluster.ReadView(ctx, client.Store(), prefixes...)
	if err != nil {
		return nil, err
	}
	d := &resourceDescription{Name: name, Namespace: ns, Amounts: AmountsRows(view.Show(ns), func(n string) bool { return n == name })}
	if d.Set, err = places(ctx, client, name); err != nil {
		return nil, err
	}
	if len(d.Set)+len(d.Amounts) == 0 {
		return nil, noResource(name, ns)
	}
	d.addTasks(view)
	return d, nil
}

func noResource(name, ns string) error {
	return types.Errorf(types.NotFound, "there is no resource %q in namespace %s: escher resources lists all", name, ns)
}

// places lists where a resource was set.
func places(ctx context.Context, client *controlplane.Client, name string) ([]string, error) {
	kvs, _, err := controlplane.ListAll(ctx, client.Store(), controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Resources, client.Namespace(), name)})
	var out []string
	for _, kv := range kvs {
		var r types.Resource
		if k, ok := controlplane.Parse(kv.Key); ok && controlplane.Read(kv, &r) {
			out = append(out, placeText(k.Where, name, &r))
		}
	}
	return out, err
}

// placeText describes a place of a resource.
func placeText(where, name string, r *types.Resource) string {
	text := r.Capacity.Format(types.ResourceID(name)) + " on node " + where
	switch where {
	case types.ClusterWide:
		text = r.Capacity.Format(types.ResourceID(name)) + " in the cluster"
	case types.EveryNode:
		text = r.Capacity.Format(types.ResourceID(name)) + " on every node"
		if r.Selector != nil && len(r.Selector.Labels) > 0 {
			text += " with " + types.LabelsText(r.Selector.Labels)
		}
	}
	if r.Lifetime != types.Forever {
		text += fmt.Sprintf(", until the end of %s %s", r.Lifetime, r.Owner)
	}
	return text
}

// addTasks adds the tasks of the namespace that hold the resource, or wait with a request for it.
func (d *resourceDescription) addTasks(view *cluster.View) {
	for t := range view.Tasks() {
		if t.ID.Namespace != d.Namespace || t.Info.V == nil {
			continue
		}
		if t.Phase() == types.Pending && asks(t.Info.V.Full(), d.Name) {
			d.Waiting = append(d.Waiting, t.ID.ID)
		}
		for _, b := range t.Bindings {
			if b.Info.V != nil && slices.ContainsFunc(b.Info.V.Holds, func(h types.Holding) bool { return h.Resource == types.Resolve(d.Namespace, d.Name) }) {
				d.Holders = append(d.Holders, t.ID.ID+" on "+b.Node.Name)
			}
		}
	}
	slices.Sort(d.Holders)
	slices.Sort(d.Waiting)
}

// asks reports whether a task requests a resource, in one of its alternatives.
func asks(t *types.Task, name string) bool {
	return t.Requests.Get(name) > 0 ||
		slices.ContainsFunc(t.Alternatives, func(a types.Alternative) bool { return a.Requests.Get(name) > 0 })
}

// mostTasks is the most tasks that the text lists.
const mostTasks = 20

// Write writes it as text.
func (d *resourceDescription) Write(w io.Writer) error {
	s := render.NewSheet(w)
	s.Line("Resource", d.Name)
	s.Line("Namespace", d.Namespace)
	s.Lines("Set", d.Set)
	s.Group("In use of what there is")
	for _, a := range d.Amounts {
		cells := a.Row()
		s.Line("  "+a.Where, strings.Join([]string{cells[3], "of", cells[2]}, " "))
	}
	s.Text("Held by", some(d.Holders))
	s.Text("Waiting", some(d.Waiting))
	return s.End()
}

// some returns the first of a list, and how many follow.
func some(all []string) []string {
	if more := len(all) - mostTasks; more > 0 {
		return append(slices.Clone(all[:mostTasks]), fmt.Sprintf("… and %d more", more))
	}
	return all
}
