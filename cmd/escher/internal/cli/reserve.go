package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/types"
)

const reserveHelp = `Locks bundles of resources, all of them or none. Tasks draw on them by requests
such as cpu@ID.

  escher reserve train --bundle cpu=1 --bundle cpu=1
  escher reserve train --bundle gpu=4 --count 8
  escher reserve train --bundle cpu=1@node-1`

// newReserve makes the command that reserves.
func newReserve(f *Factory) *cobra.Command {
	var bundles []string
	var count int
	var r types.Reservation
	cmd := &cobra.Command{
		Use:   "reserve ID --bundle name=amount,…[@node]",
		Short: "Lock bundles of resources, all or none",
		Long:  reserveHelp,
		Args:  exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if count < 1 || count > types.MaxBundles {
				return types.Errorf(types.Invalid, "count: %d is out of range: give 1 to %d", count, types.MaxBundles)
			}
			for range count {
				for _, text := range bundles {
					b, err := parseBundle(text)
					if err != nil {
						return err
					}
					r.Bundles = append(r.Bundles, b)
				}
			}
			client, err := f.Client(cmd.Context())
			if err != nil {
				return err
			}
			if err := client.Reserve(cmd.Context(), args[0], r); err != nil {
				return err
			}
			fmt.Fprintln(f.Out, args[0])
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&bundles, "bundle", nil, "what to lock on one node; repeat for several")
	flags.IntVar(&count, "count", 1, "how often to lock all these bundles")
	flags.IntVar(&r.Priority, "priority", 0, "the higher comes first")
	flags.BoolVar(&r.Accumulate, "accumulate", false, "when it has waited long, collect piecemeal what becomes free")
	return cmd
}
