package resource

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/flagset"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

const setResourceHelp = `Sets the capacity of an ephemeral resource, whatever it was: 0 removes it, inf means no
limit. Inside a task the default place is the node of the task. A name is one pool for
the cluster or on nodes, never both: remove it before it becomes the other.

  escher set-resource slot 2 --all              on every node, also later ones
  escher set-resource slot 2 --selector zone=a  on every node with that label
  escher set-resource slot 2 --node node-1      on one node
  escher set-resource slot 2 --available gpu=4  on the nodes with that free now
  escher set-resource license 10 --cluster      one pool for the whole cluster
  escher set-resource queue 0 --all --declare   a closed queue`

// NewSetResource returns the command that sets ephemeral resources.
func NewSetResource(f *cmdutil.Factory) *cobra.Command {
	var place flagset.PlaceFlags
	var opts controlplane.SetOptions
	var lifetime string
	cmd := &cobra.Command{
		Use:   "set-resource RESOURCE CAPACITY",
		Short: "Create, change or remove an ephemeral resource",
		Long:  setResourceHelp,
		Args:  cmdutil.Exactly("RESOURCE", "CAPACITY"),
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
	place.Add(cmd)
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
	flags.StringVar(&lifetime, "lifetime", "", "object that it ends with: task, session, reservation, job (when all of its tasks have ended) or policy (when it is withdrawn); default: none")
	flags.StringVar(&opts.Owner, "owner", "", "the id of that task, session, reservation, job or policy")
	return cmd
}

func setResource(cmd *cobra.Command, f *cmdutil.Factory, name string, capacity types.Quantity, place flagset.PlaceFlags, opts controlplane.SetOptions) error {
	sel, err := place.Selector()
	if err != nil {
		return err
	}
	if !place.Given() && !f.InTask() {
		return types.Errorf(types.Invalid, "place: is not given, and this is no task: say --node NAME, --selector name=value, --available name=amount, --all or --cluster")
	}
	switch opts.Lifetime {
	case types.OfTask, types.OfJob, types.OfSession, types.OfReservation, types.OfPolicy:
		own := f.InTask() && (opts.Lifetime == types.OfTask || opts.Lifetime == types.OfJob)
		if opts.Owner == "" && !own {
			return types.Errorf(types.Invalid, "owner: is missing for lifetime %s: name the %s with --owner", opts.Lifetime, opts.Lifetime)
		}
	}
	tasks, err := f.Tasks(cmd.Context())
	if err != nil {
		return err
	}
	if direct, ok := tasks.(cmdutil.Direct); ok {
		for i, node := range sel.Nodes {
			if sel.Nodes[i], err = direct.ResolveKind(cmd.Context(), controlplane.Nodes, node); err != nil {
				return err
			}
		}
	}
	res, err := tasks.Set(cmd.Context(), cmdutil.SetRequest{
		Name: name, Capacity: capacity, Here: !place.Given(), Cluster: place.Cluster, Sel: sel, Opts: opts,
	})
	if err != nil {
		return err
	}
	if res.Parts > 1 {
		f.Tell("set in %d parts: others may have seen some without the rest", res.Parts)
	}
	return nil
}
