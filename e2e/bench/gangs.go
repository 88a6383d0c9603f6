package bench

import (
	"context"
	"fmt"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

// gangSize is the number of tasks in a gang.
const gangSize = 8

// gangID is the reservation of the i-th gang.
func gangID(i int) string { return fmt.Sprintf("gang-%05d", i) }

// gangDevices is the number of devices of a node.
const gangDevices = 8

// rackSize is the number of nodes in a rack.
const rackSize = 50

// drawGangs draws nodes of eight devices, and tasks in gangs of eight that request one each.
func drawGangs(cfg rig.Config) (*rig.Hollow, error) {
	h := &rig.Hollow{Tasks: make([]int, cfg.Tasks/gangSize*gangSize), Shapes: []types.Requests{nil}}
	for range cfg.Nodes {
		h.Nodes = append(h.Nodes, &types.Node{
			Capacity: types.NewRequests(map[string]types.Quantity{
				string(types.CPU): 96_000, string(types.Memory): 512 << 30, string(types.GPU): gangDevices * rig.WholeDevice,
			}),
			Address: "http://10.0.0.1:7070", Version: "bench",
		})
		d := new(types.Devices)
		for n := range gangDevices {
			d.Devices = append(d.Devices, types.Device{ID: fmt.Sprintf("nvidia.com/gpu=%d", n), Resource: types.GPU, NUMA: n / 4})
		}
		h.Devices = append(h.Devices, d)
	}
	for i, n := range h.Nodes {
		n.Labels = []types.Label{{Name: "rack", Value: rackName(h, i)}}
	}
	return h, nil
}

// rackName is the rack of the i-th node or gang, which take turns.
func rackName(h *rig.Hollow, i int) string {
	return fmt.Sprintf("rack-%03d", i%max(1, len(h.Nodes)/rackSize))
}

// askGang makes a task request its part of the gang's reservation.
func askGang(_ *rig.Hollow, i int, t *types.Task) {
	t.Requests = types.NewRequests(map[string]types.Quantity{string(types.GPU) + "@" + gangID(i/gangSize): rig.WholeDevice})
}

// putGangs makes the reservations and shows the tasks; inRack makes each gang request one rack.
func putGangs(inRack bool) func(context.Context, *rig.Cluster, *rig.Hollow) error {
	return func(ctx context.Context, c *rig.Cluster, h *rig.Hollow) error {
		err := rig.LoadAll(ctx, c.Store, func(yield func(rig.Item) bool) {
			for i := range len(h.Tasks) / gangSize {
				asked := map[string]types.Quantity{string(types.GPU): rig.WholeDevice}
				if inRack {
					asked["rack/"+rackName(h, i)] = 1
				}
				r := &types.Reservation{Submitted: int64(i + 1)}
				for range gangSize {
					r.Bundles = append(r.Bundles, types.Bundle{Requests: types.NewRequests(asked)})
				}
				if !yield(rig.Item{Key: controlplane.ReservationKey(rig.Namespace, gangID(i)), Value: r}) {
					return
				}
			}
		}, nil)
		if err != nil {
			return err
		}
		return putJobs(ctx, c, h)
	}
}

// runGangs measures how many gangs of eight are granted and bound per second, all pending when the
// scheduler begins: from the end of its listing to the last binding. In "gangs8-rack", each
// requests a rack.
func runGangs(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	arms := []rig.Arm{
		binding{name: "gangs8", draw: drawGangs, edit: askGang, prepare: putGangs(false), pending: true}.arm(),
		binding{name: "gangs8-rack", draw: drawGangs, edit: askGang, prepare: putGangs(true), pending: true}.arm(),
	}
	s, err := rig.Interleave(ctx, cfg, arms...)
	if err != nil {
		return nil, err
	}
	var rows []rig.Row
	for i, must := range []rig.Target{{Must: 1000, Aim: 2500, Unit: "/s"}, {Must: 800, Unit: "/s"}} {
		var gangs []float64
		for _, x := range s.Of(arms[i].Name, rig.Rate) {
			gangs = append(gangs, x/gangSize)
		}
		row := rig.NewRow(cfg, arms[i].Name, "gangs/s", gangs).AddDetails(s, arms[i].Name, rig.Rate).AddViolations(s.Violations(arms[i].Name))
		rows = append(rows, *row.Require(cfg.Must, must))
	}
	return rows, nil
}
