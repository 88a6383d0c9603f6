package flagset

import (
	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/labels"
)

// PlaceFlags say where a resource is.
type PlaceFlags struct {
	nodes     []string
	Labels    []string
	available []string
	all       bool
	Cluster   bool
}

func (p *PlaceFlags) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&p.nodes, "node", nil, "on this node; repeat for several")
	flags.StringArrayVar(&p.Labels, "selector", nil, "on the nodes with this label, name=value; name=value,name=value for several")
	flags.StringArrayVar(&p.available, "available", nil, "on the nodes with this free now, name=amount; repeat for several")
	flags.BoolVar(&p.all, "all", false, "on every node, present and future")
	flags.BoolVar(&p.Cluster, "cluster", false, "one pool for the whole cluster")
}

// Given reports whether any place is given.
func (p *PlaceFlags) Given() bool {
	return p.all || p.Cluster || len(p.nodes)+len(p.Labels)+len(p.available) > 0
}

// Selector returns the selected nodes.
func (p *PlaceFlags) Selector() (types.Selector, error) {
	picked := len(p.nodes)+len(p.Labels)+len(p.available) > 0
	if p.all && (picked || p.Cluster) || p.Cluster && picked {
		return types.Selector{}, types.Errorf(types.Invalid, "place: --all, --cluster and a choice of nodes exclude one another: give one")
	}
	sel := types.Selector{Nodes: p.nodes}
	for _, text := range p.Labels {
		selector, err := labels.Parse("selector", text)
		if err != nil {
			return sel, err
		}
		exactly, ok := selector.Exactly()
		if !ok {
			return sel, types.Errorf(types.Invalid, "selector: %q has more than labels with their values, and the resource is on future nodes too: write name=value", text)
		}
		sel.Labels = append(sel.Labels, exactly...)
	}
	available, err := cmdutil.ParseRequests("available", p.available)
	sel.Available = available
	return sel, err
}
