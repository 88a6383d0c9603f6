package bench

import (
	"context"
	"fmt"

	"github.com/escher-sched/escher/controlplane"
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
func drawGangs(cfg Config) (*hollow, error) {
	h := &hollow{tasks: make([]int, cfg.Tasks/gangSize*gangSize), shapes: []types.Requests{nil}}
	for range cfg.Nodes {
		h.nodes = append(h.nodes, &types.Node{
			Capacity: types.NewRequests(map[string]types.Quantity{
				string(types.CPU): 96_000, string(types.Memory): 512 << 30, string(types.GPU): gangDevices * wholeDevice,
			}),
			Address: "http://10.0.0.1:7070", Version: "bench",
		})
		d := new(types.Devices)
		for n := range gangDevices {
			d.Devices = append(d.Devices, types.Device{ID: fmt.Sprintf("nvidia.com/gpu=%d", n), Resource: types.GPU, NUMA: n / 4})
		}
		h.devices = append(h.devices, d)
	}
	for i, n := range h.nodes {
		n.Labels = []types.Label{{Name: "rack", Value: rackName(h, i)}}
	}
	return h, nil
}

// rackName is the rack of the i-th node or gang, which take turns.
func rackName(h *hollow, i int) string {
	return fmt.Sprintf("rack-%03d", i%max(1, len(h.nodes)/rackSize))
}

// askGang makes a task request its part of the gang's reservation.
func askGang(_ *hollow, i int, t *types.Task) {
	t.Requests = types.NewRequests(map[string]types.Quantity{string(types.GPU) + "@" + gangID(i/gangSize): wholeDevice})
}

// putGangs makes the reservations and shows the tasks; inRack makes each gang request one rack.
func putGangs(inRack bool) func(context.Context, *cluster, *hollow) error {
	return func(ctx context.Context, c *cluster, h *hollow) error {
		err := loadAll(ctx, c.store, func(yield func(item) bool) {
			for i := range len(h.tasks) / gangSize {
				asked := map[string]types.Quantity{string(types.GPU): wholeDevice}
				if inRack {
					asked["rack/"+rackName(h, i)] = 1
				}
				r := &types.Reservation{Submitted: int64(i + 1)}
				for range gangSize {
					r.Bundles = append(r.Bundles, types.Bundle{Requests: types.NewRequests(asked)})
				}
				if !yield(item{controlplane.ReservationKey(ns, gangID(i)), r}) {
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
func runGangs(ctx context.Context, cfg Config) ([]Row, error) {
	arms := []arm{
		binding{name: "gangs8", draw: drawGangs, edit: askGang, prepare: putGangs(false), pending: true}.arm(),
		binding{name: "gangs8-rack", draw: drawGangs, edit: askGang, prepare: putGangs(true), pending: true}.arm(),
	}
	s, err := interleave(ctx, cfg, arms...)
	if err != nil {
		return nil, err
	}
	var rows []Row
	for i, must := range []target{{must: 1000, aim: 2500, unit: "/s"}, {must: 800, unit: "/s"}} {
		var gangs []float64
		for _, x := range s.of(arms[i].name, rate) {
			gangs = append(gangs, x/gangSize)
		}
		row := newRow(cfg, arms[i].name, "gangs/s", gangs).details(s, arms[i].name, rate).found(s.violations(arms[i].name))
		rows = append(rows, *row.require(cfg.Must, must))
	}
	return rows, nil
}
