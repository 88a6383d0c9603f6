package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

const setResourceHelp = `Makes the capacity of an ephemeral resource what is given, whatever it was:
0 removes it, inf is no bound. Inside a task, without a place, it means the node
that the task runs on. A name is one pool of the cluster or on nodes, never
both: to make one of the other, remove it first.

  escher set-resource slot 2 --all              on every node, also later ones
  escher set-resource slot 2 --selector zone=a  on every node with that label
  escher set-resource slot 2 --node node-1      on one node
  escher set-resource slot 2 --available gpu=4  on the nodes with that free now
  escher set-resource licence 10 --cluster      one pool for the whole cluster
  escher set-resource queue 0 --all --declare   a closed queue`

// placeFlags say where a resource is.
type placeFlags struct {
	nodes     []string
	labels    []string
	available []string
	all       bool
	cluster   bool
}

func (p *placeFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&p.nodes, "node", nil, "on this node; repeat for several")
	flags.StringArrayVar(&p.labels, "selector", nil, "on the nodes with this label, name=value; repeat for several")
	flags.StringArrayVar(&p.available, "available", nil, "on the nodes with this free now, name=amount; repeat for several")
	flags.BoolVar(&p.all, "all", false, "on every node, present and future")
	flags.BoolVar(&p.cluster, "cluster", false, "one pool for the whole cluster")
}

// given reports whether any place is given.
func (p *placeFlags) given() bool {
	return p.all || p.cluster || len(p.nodes)+len(p.labels)+len(p.available) > 0
}

// selector returns the nodes that are meant.
func (p *placeFlags) selector() (types.Selector, error) {
	picked := len(p.nodes)+len(p.labels)+len(p.available) > 0
	if p.all && (picked || p.cluster) || p.cluster && picked {
		return types.Selector{}, types.Errorf(types.Invalid, "place: --all, --cluster and a choice of nodes exclude one another: give one")
	}
	sel := types.Selector{Nodes: p.nodes}
	for _, text := range p.labels {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return sel, types.Errorf(types.Invalid, "selector: %q is no label: write name=value", text)
		}
		sel.Labels = append(sel.Labels, types.Label{Name: name, Value: value})
	}
	available, err := parseRequests("available", p.available)
	sel.Available = available
	return sel, err
}

// newSetResource makes the command that sets ephemeral resources.
func newSetResource(f *Factory) *cobra.Command {
	var place placeFlags
	var opts controlplane.SetOptions
	var lifetime string
	cmd := &cobra.Command{
		Use:   "set-resource RESOURCE CAPACITY",
		Short: "Create, change or remove an ephemeral resource",
		Long:  setResourceHelp,
		Args:  exactly("RESOURCE", "CAPACITY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := types.ValidateEphemeral("name", args[0]); err != nil {
				return err
			}
			capacity, err := types.ParseQuantity(args[0], args[1])
			if err != nil {
				return err
			}
			opts.Lifetime = types.Lifetime(lifetime)
			return setResource(cmd, f, args[0], capacity, place, opts)
		},
	}
	place.add(cmd)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// A negative number looks like a flag.
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && strings.ContainsAny(unknown.GetSpecifiedName(), "0123456789") {
			return types.Errorf(types.Invalid, "capacity: -%s is negative: give 0 to remove the resource, or more", unknown.GetSpecifiedName())
		}
		return cmd.Root().FlagErrorFunc()(cmd, err)
	})
	flags := cmd.Flags()
	flags.BoolVar(&opts.Declare, "declare", false, "keep a capacity of 0: it exists, and is closed")
	flags.BoolVar(&opts.Future, "future", false, "allow labels that no node has yet")
	flags.StringVar(&lifetime, "lifetime", "", "what it ends with: task, session, reservation, job (when all of its tasks have ended) or policy (when that is withdrawn); default: nothing")
	flags.StringVar(&opts.Owner, "owner", "", "the id of that task, session, reservation, job or policy")
	return cmd
}

func setResource(cmd *cobra.Command, f *Factory, name string, capacity types.Quantity, place placeFlags, opts controlplane.SetOptions) error {
	sel, err := place.selector()
	if err != nil {
		return err
	}
	if !place.given() && !f.inTask() {
		return types.Errorf(types.Invalid, "place: is not given, and this is no task: say --node NAME, --selector name=value, --available name=amount, --all or --cluster")
	}
	switch opts.Lifetime {
	case types.OfTask, types.OfJob, types.OfSession, types.OfReservation, types.OfPolicy:
		own := f.inTask() && (opts.Lifetime == types.OfTask || opts.Lifetime == types.OfJob)
		if opts.Owner == "" && !own {
			return types.Errorf(types.Invalid, "owner: is missing for lifetime %s: name the %s with --owner", opts.Lifetime, opts.Lifetime)
		}
	}
	tasks, err := f.Tasks(cmd.Context())
	if err != nil {
		return err
	}
	if direct, ok := tasks.(outside); ok {
		for i, node := range sel.Nodes {
			if sel.Nodes[i], err = direct.ResolveKind(cmd.Context(), controlplane.Nodes, node); err != nil {
				return err
			}
		}
	}
	res, err := tasks.Set(cmd.Context(), setRequest{
		name: name, capacity: capacity, here: !place.given(), cluster: place.cluster, sel: sel, opts: opts,
	})
	if err != nil {
		return err
	}
	if res.Parts > 1 {
		f.tell("set in %d parts: others may have seen some without the rest", res.Parts)
	}
	return nil
}
