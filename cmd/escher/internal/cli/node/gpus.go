package node

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/labels"
)

const gpusHelp = `Lists the devices of all nodes, or of the named ones: GPUs, slices of GPUs, and other
devices, with their model, their health, and the tasks and reservations of all namespaces
that hold them. -o wide adds addresses and full names; a program finds the names of its
devices in ESCHER_DEVICES.

  escher gpus
  escher gpus node-1 -o wide`

// noDevices says how to get devices.
const noDevices = "no devices: an agent gives out the GPUs that a CDI specification describes (for those of NVIDIA: " +
	"nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml), and others with --device; escher dev --simulated-gpus 8 simulates some"

// NewGPUs returns the command that lists devices.
func NewGPUs(f *cmdutil.Factory) *cobra.Command {
	var watch bool
	var labels cmdutil.Selection
	cmd := &cobra.Command{
		Use:   "gpus [NODE...]",
		Short: "List GPUs and other devices, their health and holders",
		Long:  gpusHelp,
		RunE: func(cmd *cobra.Command, nodes []string) error {
			ctx := cmd.Context()
			client, err := f.Client(ctx)
			if err != nil {
				return err
			}
			for i, name := range nodes {
				it, err := cmdutil.Find(ctx, client, name, controlplane.Nodes)
				if err != nil {
					return err
				}
				nodes[i] = it.ID
			}
			rows := func(view *cluster.View, now time.Time) []gpuRow { return gpuRows(view, nodes, labels.Selector, now) }
			if watch {
				return cmdutil.WatchList(ctx, f, cmdutil.Listing[gpuRow]{Kinds: gpuKinds(), Rows: rows})
			}
			var prefixes []string
			for _, kind := range gpuKinds() {
				prefixes = append(prefixes, controlplane.Prefix(kind))
			}
			view, err := cluster.ReadView(ctx, client.Store(), prefixes...)
			if err != nil {
				return err
			}
			list := rows(view, time.Now())
			if len(list) == 0 && !labels.IsZero() {
				labels.TellNone(f, "node")
			} else if len(list) == 0 && !f.Format.Encoded() {
				fmt.Fprintln(f.Err, noDevices)
				return nil
			}
			return cmdutil.Print(f, list)
		},
	}
	labels.AddSelector(cmd, cmdutil.NodeLabels, "only those of nodes")
	cmdutil.AddWatch(cmd, &watch)
	return cmd
}

// gpuKinds are the kinds of keys for rows of devices.
func gpuKinds() []controlplane.Kind {
	return []controlplane.Kind{
		controlplane.Nodes, controlplane.Alive, controlplane.Devices, controlplane.Allocated,
		controlplane.Bindings, controlplane.Reservations, controlplane.Grants,
	}
}

// gpuRows makes a row of each device of these nodes, or of all, that a selector selects.
func gpuRows(view *cluster.View, nodes []string, sel labels.Selector, now time.Time) []gpuRow {
	var rows []gpuRow
	for _, n := range view.Nodes {
		if n.Info.V == nil || !sel.Matches(n.Info.V.Labels) || n.Devices.V == nil || len(nodes) > 0 && !slices.Contains(nodes, n.Name) {
			continue
		}
		held := heldOn(view, n)
		for _, d := range n.Devices.V.Devices {
			rows = append(rows, newGPURow(n, d, held[d.ID], now))
		}
	}
	cmdutil.SortBy(rows, func(r gpuRow) string { return r.Node })
	return rows
}

// heldOn returns the holders of the devices of a node.
func heldOn(view *cluster.View, n *cluster.Node) map[string][]deviceHolder {
	held := make(map[string][]deviceHolder)
	drawn := make(map[cluster.ID]map[string]types.Quantity)
	for _, b := range n.Bindings {
		if b.Info.V == nil {
			continue
		}
		for _, h := range b.Info.V.Holds {
			ns, _, reservation := h.Resource.Split()
			for _, d := range h.Devices {
				who := deviceHolder{Namespace: b.Task.ID.Namespace, Task: b.Task.ID.ID, Reservation: reservation, Share: amount(d.Share)}
				held[d.ID] = append(held[d.ID], who)
				if reservation == "" {
					continue
				}
				id := cluster.ID{Namespace: ns, ID: reservation}
				if drawn[id] == nil {
					drawn[id] = make(map[string]types.Quantity)
				}
				drawn[id][d.ID] += d.Share
			}
		}
	}
	for id, r := range view.Reservations {
		if r.Grant.V == nil {
			continue
		}
		for _, at := range r.Grant.V.Nodes {
			if at.Node != n.Name {
				continue
			}
			for _, h := range at.Holds {
				for _, d := range h.Devices {
					if rest := d.Share - drawn[id][d.ID]; rest > 0 {
						held[d.ID] = append(held[d.ID], deviceHolder{Namespace: id.Namespace, Reservation: id.ID, Share: amount(rest)})
					}
				}
			}
		}
	}
	for id := range held {
		slices.SortFunc(held[id], compareHolders)
	}
	addOthers(n, held)
	return held
}

// addOthers adds shares of other namespaces, which are allocated without a visible holder.
func addOthers(n *cluster.Node, held map[string][]deviceHolder) {
	if n.Allocated.V == nil {
		return
	}
	for _, h := range n.Allocated.V.Holds {
		if !h.Resource.Physical() {
			continue // shares drawn from a reservation count there
		}
		for _, d := range h.Devices {
			rest := d.Share
			for _, who := range held[d.ID] {
				rest -= types.Quantity(who.Share)
			}
			if rest > 0 {
				held[d.ID] = append(held[d.ID], deviceHolder{Share: amount(rest)})
			}
		}
	}
}
