package match

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// plain is a node counted by hand: the reference that rooms are compared with.
type plain struct {
	cpu, gpus types.Quantity
	cpuUsed   types.Quantity
	// used is the share in use of each device, by its number.
	used    []types.Quantity
	devices []types.Device
}

// gpusUsed returns how much of the devices is in use.
func (p *plain) gpusUsed() (sum types.Quantity) {
	for _, q := range p.used {
		sum += q
	}
	return sum
}

// usable reports whether a device has a share of q for a need.
func (p *plain) usable(i int, x cluster.Need, q types.Quantity) bool {
	d := p.devices[i]
	return d.Unhealthy == "" && p.used[i]+q <= Whole && (x.Devices == nil || x.Devices.Takes(&d))
}

// fits reports whether one need fits.
func (p *plain) fits(x cluster.Need) bool {
	if x.ID == types.CPU {
		return p.cpuUsed+x.Amount <= p.cpu
	}
	if p.gpusUsed()+x.Amount > p.gpus {
		return false
	}
	if len(p.devices) == 0 {
		return x.Devices == nil
	}
	if x.Amount < Whole {
		return slices.ContainsFunc(p.numbers(), func(i int) bool { return p.usable(i, x, x.Amount) })
	}
	unused := 0
	for i := range p.devices {
		if p.usable(i, x, Whole) {
			unused++
		}
	}
	return x.Amount%Whole == 0 && int(x.Amount/Whole) <= unused
}

func (p *plain) numbers() []int {
	out := make([]int, len(p.devices))
	for i := range out {
		out[i] = i
	}
	return out
}

// hold counts a holding, and returns what is wrong with it.
func (p *plain) hold(x cluster.Need, h types.Holding) (wrong string) {
	if h.Resource != x.ID || h.Amount != x.Amount {
		return "it is another amount"
	}
	if x.ID == types.CPU {
		p.cpuUsed += h.Amount
		return ""
	}
	sum := types.Quantity(0)
	for _, s := range h.Devices {
		i := slices.IndexFunc(p.devices, func(d types.Device) bool { return d.ID == s.ID })
		if i < 0 || !p.usable(i, x, s.Share) {
			return "it has a device that is not usable"
		}
		p.used[i] += s.Share
		sum += s.Share
	}
	if len(p.devices) > 0 && sum != x.Amount {
		return "its devices do not add up"
	}
	return ""
}

// drawPlain draws a node, and the same node as the cluster has it.
func drawPlain(t *rapid.T) (*plain, *cluster.View, *cluster.Node) {
	p := &plain{cpu: 100 * types.Quantity(rapid.IntRange(0, 40).Draw(t, "cpu"))}
	for i := range rapid.IntRange(0, 5).Draw(t, "devices") {
		d := types.Device{
			ID: fmt.Sprint("d", i), Resource: types.GPU, NUMA: -1,
			Model:       rapid.SampledFrom([]string{"A100", "H100"}).Draw(t, "model"),
			MemoryBytes: int64(rapid.IntRange(1, 2).Draw(t, "memory")),
		}
		if rapid.IntRange(0, 4).Draw(t, "health") == 0 {
			d.Unhealthy = "it fell off the bus"
		}
		p.devices = append(p.devices, d)
	}
	p.used = make([]types.Quantity, len(p.devices))
	p.gpus = Whole * types.Quantity(len(p.devices))
	n := &cluster.Node{Name: "n1", Info: cluster.Cell[types.Node]{V: &types.Node{
		Capacity: types.NewRequests(map[string]types.Quantity{"cpu": p.cpu, "gpu": p.gpus}),
	}}}
	if len(p.devices) > 0 {
		n.Devices.V = &types.Devices{Devices: p.devices}
	}
	v := cluster.New()
	v.Nodes["n1"] = n
	return p, v, n
}

func drawNeed(t *rapid.T) cluster.Need {
	x := cluster.Need{ID: types.CPU, Amount: 100 * types.Quantity(rapid.IntRange(1, 20).Draw(t, "amount"))}
	if rapid.Bool().Draw(t, "gpu") {
		x = cluster.Need{ID: types.GPU, Amount: 500 * types.Quantity(rapid.IntRange(1, 7).Draw(t, "gpus"))}
		switch rapid.IntRange(0, 3).Draw(t, "which") {
		case 0:
			x.Devices = &types.DeviceRequest{Resource: "gpu", Models: []string{"H100"}}
		case 1:
			x.Devices = &types.DeviceRequest{Resource: "gpu", MinMemory: 2}
		}
	}
	return x
}

// TestRoomCountsAsByHand compares a room with a node that is counted by hand, over tasks that come
// and go: what fits, which devices tasks get, and what is left.
func TestRoomCountsAsByHand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, v, n := drawPlain(t)
		r := On(v, n)
		type held struct {
			need cluster.Need
			has  []types.Holding
		}
		var all []held
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(all) > 0 && rapid.IntRange(0, 2).Draw(t, "ends") == 0 {
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which ends")
				r.Return(all[i].has)
				for _, h := range all[i].has {
					if h.Resource == types.CPU {
						p.cpuUsed -= h.Amount
					}
					for _, s := range h.Devices {
						p.used[slices.IndexFunc(p.devices, func(d types.Device) bool { return d.ID == s.ID })] -= s.Share
					}
				}
				all = slices.Delete(all, i, i+1)
			}
			x := drawNeed(t)
			needs := []cluster.Need{x}
			if got, want := r.Fits(needs), p.fits(x); got != want {
				t.Fatalf("%+v fits %v, by hand %v: node %+v", x, got, want, p)
			}
			if r.Fits(needs) {
				has := r.Pick(needs)
				r.Hold(has)
				if wrong := p.hold(x, has[0]); wrong != "" {
					t.Fatalf("%+v gets %+v: %s: node %+v", x, has, wrong, p)
				}
				all = append(all, held{x, has})
			}
			if free, _ := r.Free(types.CPU); free != p.cpu-p.cpuUsed {
				t.Fatalf("%d cpu are free, by hand %d", free, p.cpu-p.cpuUsed)
			}
			if free, _ := r.Free(types.GPU); len(p.devices) > 0 && free != p.gpus-p.gpusUsed() {
				t.Fatalf("%d gpu are free, by hand %d", free, p.gpus-p.gpusUsed())
			}
		}
	})
}

// TestPutIsTakeAgainAndAgain compares a room that takes equal needs at once with one that takes them
// one after another.
func TestPutIsTakeAgainAndAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, v, n := drawPlain(t)
		atOnce, each := On(v, n), On(v, n)
		for range rapid.IntRange(1, 4).Draw(t, "steps") {
			needs := []cluster.Need{drawNeed(t)}
			if other := drawNeed(t); other.ID != needs[0].ID {
				needs = append(needs, other)
			}
			most, count := rapid.IntRange(0, 50).Draw(t, "most"), 0
			for count < most && each.Fits(needs) {
				each.Hold(each.Pick(needs))
				count++
			}
			if got := atOnce.Put(needs, most); got != count {
				t.Fatalf("%+v fits %d times at once, and %d times one after another", needs, got, count)
			}
			if a, b := fmt.Sprintf("%+v", atOnce.Holds()), fmt.Sprintf("%+v", each.Holds()); a != b {
				t.Fatalf("at once it holds %s, one after another %s", a, b)
			}
		}
	})
}
