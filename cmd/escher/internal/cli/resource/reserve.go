package resource

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/flagset"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

const reserveHelp = `Locks bundles of resources, all of them or none. Tasks draw on them with requests such as
cpu@train.

  escher reserve train --bundle cpu=1 --bundle cpu=1
  escher reserve train --bundle gpu=4 --count 8
  escher reserve train --bundle gpu=4 --gpu-model H100 --gpu-topology nvlink
  escher reserve train --bundle cpu=1@node-1
  escher reserve train --bundle gpu=8 --wait --timeout 10m
  escher reserve later --bundle cpu=1 --at 2099-12-01T08:00 --for 2h`

// NewReserve returns the command that creates a reservation.
func NewReserve(f *cmdutil.Factory) *cobra.Command {
	var bundles []string
	var count int
	var gpus flagset.GpuChoice
	var wait bool
	var timeout time.Duration
	var r types.Reservation
	var lost string
	var ahead reserveAhead
	cmd := &cobra.Command{
		Use:   "reserve RESERVATION --bundle name=amount,…[@node]",
		Short: "Lock bundles of resources, all or none",
		Long:  reserveHelp,
		Args:  cmdutil.Exactly("RESERVATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(bundles) == 0 {
				return types.Errorf(types.Invalid, "bundle: is missing: say what to lock, such as --bundle cpu=1")
			}
			if timeout < 0 || timeout > 0 && !wait {
				return types.Errorf(types.Invalid, "timeout: %s is given: give --wait too, and how long to wait at most", timeout)
			}
			if count < 1 || count > types.MaxBundles {
				return types.Errorf(types.Invalid, "count: %d is out of range: give 1 to %d", count, types.MaxBundles)
			}
			for range count {
				for _, text := range bundles {
					b, err := cmdutil.ParseBundle(text)
					if err != nil {
						return err
					}
					r.Bundles = append(r.Bundles, b)
				}
			}
			if err := gpus.Choose(r.Bundles); err != nil {
				return err
			}
			var err error
			if r.Lost, err = types.ParseLostBundles(lost); err != nil {
				return err
			}
			client, err := f.Client(cmd.Context())
			if err != nil {
				return err
			}
			if err := ahead.reserve(cmd, f, client, args[0], r); err != nil {
				return err
			}
			fmt.Fprintln(f.Out, args[0])
			if wait {
				return waitGranted(cmd.Context(), f, client, args[0], timeout, ahead.given())
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&bundles, "bundle", nil, "what to lock on one node; repeat for several")
	gpus.Add(flags)
	flags.IntVar(&count, "count", 1, "number of times to lock these bundles")
	flags.IntVar(&r.Priority, "priority", 0, "the higher comes first")
	flags.BoolVar(&wait, "wait", false, "return when all bundles are locked")
	flags.DurationVar(&timeout, "timeout", 0, "longest time to wait (default: no limit)")
	cmdutil.Preset(flags, "timeout", "", "leave it out for no limit")
	flags.BoolVar(&r.Accumulate, "accumulate", false, "after a long wait, collect free capacity")
	flags.StringVar(&lost, "on-loss", types.WaitForNode.String(), "when a node is lost or drained: wait keeps its bundles there, move locks them elsewhere when all of them fit")
	cmdutil.Former(cmd, f, "lost", "on-loss")
	ahead.add(flags)
	return cmd
}

// waitGranted waits until a reservation is granted, or deleted. One that is ahead is made by a policy, soon.
func waitGranted(ctx context.Context, f *cmdutil.Factory, client *controlplane.Client, id string, timeout time.Duration, ahead bool) error {
	defer f.Progress("waiting for reservation " + id)()
	if timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		ctx = limited
	}
	gone, seen := false, false
	kinds := []controlplane.Kind{controlplane.Reservations, controlplane.Grants}
	err := cmdutil.ViewUntil(ctx, client, kinds, func(view *cluster.View) bool {
		r := view.Reservations[cluster.ID{Namespace: client.Namespace(), ID: id}]
		if r == nil || r.Info.V == nil {
			gone = seen || !ahead
			return gone
		}
		seen = true
		return r.Current() && r.Grant.V.Phase == types.Granted
	})
	switch {
	case gone:
		return types.Errorf(types.NotFound, "reservation %s was given up while it waited: escher reservations lists what there is", id)
	case errors.Is(err, context.DeadlineExceeded):
		return types.Errorf(types.Unavailable, "reservation %s is not granted after %s, and goes on waiting: escher why %s says what it waits for", id, timeout, id)
	}
	return err
}
