package match

import (
	"testing"

	"github.com/escher-sched/escher/controlplane/audit/audittest"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// world returns the view of a script of package audittest.
func world(t testing.TB, script string) *cluster.View {
	t.Helper()
	steps, err := audittest.Parse(script)
	if err != nil {
		t.Fatal(err)
	}
	v := cluster.New()
	for _, s := range steps {
		for _, e := range s.Batch.Events {
			if _, _, err := v.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	return v
}

// need returns a need of so many thousandths, or bytes.
func need(id types.ResourceID, amount types.Quantity) cluster.Need {
	return cluster.Need{ID: id, Amount: amount}
}

// wanted returns a need of devices of a model and a topology.
func wanted(amount types.Quantity, model string, topology types.Topology) cluster.Need {
	r := &types.DeviceRequest{Resource: "gpu", Topology: topology}
	if model != "" {
		r.Models = []string{model}
	}
	return cluster.Need{ID: types.GPU, Amount: amount, Devices: r}
}

// devicesScript is a node with two pairs of devices: g0 is in use, g1 is unhealthy, and a grant has
// g2. A grant of a pool has half of it.
const devicesScript = `
put nodes/n1 {"Capacity": {"cpu": "4", "gpu": "4", "memory": "8B"}, "PortFirst": 100, "PortLast": 102}
put alive/n1 {}
put devices/n1 {"Devices": [
  {"ID": "g0", "Resource": "gpu", "Model": "H100", "NUMA": 0, "Links": ["a"]}, {"ID": "g1", "Resource": "gpu", "Model": "H100", "NUMA": 0, "Links": ["a"], "Unhealthy": "hot"},
  {"ID": "g2", "Resource": "gpu", "Model": "L4", "NUMA": 1}, {"ID": "g3", "Resource": "gpu", "Model": "L4", "NUMA": 1}]}
put reservations/d/r {"Bundles": [{"requests": {"gpu": "1", "cpu": "2"}, "node": "n1"}]}
put resources/d/slots/* {"Capacity": 4000}
put allocated/*/d/slots {"Holds": [{"Resource": "d:slots", "Amount": 3000}]}

put grants/d/r {"Phase": "granted", "Reservation": $(reservations/d/r), "Bundles": ["n1"], "Nodes": [{"Node": "n1", "Holds": [
  {"Resource": "cpu", "Amount": 2000}, {"Resource": "d:slots", "Amount": 2000, "Cluster": true}, {"Resource": "gpu", "Amount": 1000, "Devices": [{"ID": "g2", "Share": 1000}]}]}]}
put allocated/n1 {"Holds": [{"Resource": "cpu", "Amount": 3000}, {"Resource": "d:gpu@r", "Amount": 400, "Devices": [{"ID": "g2", "Share": 400}]},
  {"Resource": "gpu", "Amount": 1600, "Devices": [{"ID": "g0", "Share": 600}, {"ID": "g2", "Share": 1000}]}, {"Resource": "port", "Amount": 1000, "Devices": [{"ID": "101", "Share": 1000}]}]}
`

// TestFitsNowAndEver checks what fits a node now, what would fit it if nothing were in use and all
// devices were healthy, and what its parts say.
func TestFitsNowAndEver(t *testing.T) {
	v := world(t, devicesScript)
	r := On(v, v.Nodes["n1"])
	for _, c := range []struct {
		need      cluster.Need
		now, ever bool
	}{
		{need("cpu", 1000), true, true}, {need("cpu", 1001), false, true}, {need("cpu", 4000), false, true}, {need("cpu", 4001), false, false},
		{need("memory", 8), true, true}, {need("memory", 9), false, false}, {need("disk", 1), false, false},
		{need("gpu", 1000), true, true}, {need("gpu", 2000), false, true}, {need("gpu", 4000), false, true}, {need("gpu", 5000), false, false}, {need("gpu", 1500), false, false},
		{need("gpu", 400), true, true}, {wanted(400, "H100", ""), true, true}, {wanted(401, "H100", ""), false, true}, {wanted(500, "A100", ""), false, false},
		{wanted(2000, "", types.LinkedDevices), false, true}, {wanted(2000, "L4", types.LinkedDevices), false, false}, {wanted(2000, "L4", types.OneNUMA), false, true}, {wanted(3000, "", types.OneNUMA), false, false},
		{need("d:gpu@r", 600), true, true}, {need("d:gpu@r", 601), false, true}, {need("d:gpu@r", 1000), false, true}, {need("d:gpu@r", 1001), false, false},
		{need("d:cpu@r", 2000), true, true}, {need("d:cpu@r", 2001), false, false}, {need("d:gpu@s", 1), false, false},
		{need("port", 2000), true, true}, {need("port", 3000), false, true}, {need("port", 4000), false, false}, {need("port", 500), false, false},
		{need("port/80", 1000), true, true}, {need("port/80", 500), false, false}, {need("port/101", 1000), false, false}, {need("node/n1", 1000), true, true}, {need("node/n2", 1000), false, false},
	} {
		all := []cluster.Need{c.need}
		short, fits := r.Short(all)
		if fits != c.now || fits != (short == "") || !fits && short != c.need.ID || r.Fits(all) != fits {
			t.Errorf("%+v: fits now %t, short of %q, want %t", c.need, fits, short, c.now)
		}
		if got := r.EverFits(all); got != c.ever {
			t.Errorf("%+v: fits ever %t", c.need, got)
		}
		if got := r.EverHas(c.need); got != c.ever {
			t.Errorf("%+v: the node has it ever: %t", c.need, got)
		}
	}
}

// TestDevicesOfARoom checks which devices a need gets, and the free amounts that the index keeps.
func TestDevicesOfARoom(t *testing.T) {
	v := world(t, devicesScript)
	r := On(v, v.Nodes["n1"])
	for id, want := range map[types.ResourceID][3]types.Quantity{"gpu": {1000, 1000, 1}, "cpu": {2400, 2400, 0}, "disk": {2400, 2400, 0}, "d:gpu@r": {0, 600, 1}, "d:cpu@r": {2400, 2400, 0}} {
		wholes, part, devices := r.FreeDevices(id, 2400)
		if wholes != want[0] || part != want[1] || devices != (want[2] == 1) || r.MadeOfDevices(id) != devices {
			t.Errorf("%s: %d, %d, %t", id, wholes, part, devices)
		}
	}
	if wholes, part, _ := r.FreeDevices("gpu", 300); wholes != 300 || part != 300 {
		t.Errorf("more in devices than in all: %d, %d", wholes, part)
	}
	for _, c := range []struct {
		need cluster.Need
		want string
	}{{need("gpu", 1000), "g3"}, {need("gpu", 300), "g0"}, {wanted(300, "L4", ""), "g3"}, {need("d:gpu@r", 600), "g2"}, {need("port", 2000), "100 102"}, {need("port", 4000), ""}, {need("cpu", 1000), ""}} {
		got := ""
		for i, d := range r.PickDevices(c.need) {
			got += []string{"", " "}[min(i, 1)] + d.ID
		}
		if got != c.want {
			t.Errorf("%+v gets %q, want %q", c.need, got, c.want)
		}
	}
	holds := r.Pick([]cluster.Need{need("d:slots", 1000), need("gpu", 1000), need("node/n1", 1000)})
	if len(holds) != 2 || !holds[0].Cluster || holds[1].Cluster || len(holds[1].Devices) != 1 {
		t.Errorf("picked %+v", holds)
	}
	before := len(r.Holds())
	c := r.Clone()
	c.Take([]cluster.Need{need("d:slots", 1000), need("memory", 8), need("node/n1", 1000)})
	if free, _ := c.Free("memory"); free != 0 || len(r.Holds()) != before || len(c.Holds()) != before+1 {
		t.Errorf("%d are free, %+v and %+v are held", free, c.Holds(), r.Holds())
	}
	d := c.Clone()
	if d.Hold([]types.Holding{{Resource: "disk", Amount: 5}, {Resource: "d:slots", Amount: 5, Cluster: true}}); len(d.Holds()) != before+2 || len(c.Holds()) != before+1 {
		t.Errorf("a clone shares what is held: %+v, %+v", d.Holds(), c.Holds())
	}
	if free, known := d.Free("disk"); known || free != -5 {
		t.Errorf("%d, %t", free, known)
	}
}

// TestOverdrawn checks resources and devices with more in use than there is. An unhealthy device
// counts with its capacity.
func TestOverdrawn(t *testing.T) {
	v := world(t, devicesScript)
	device := func(id types.ResourceID, name string) types.Holding {
		return types.Holding{Resource: id, Amount: 1, Devices: []types.DeviceShare{{ID: name, Share: 1}}}
	}
	for _, c := range []struct {
		more types.Holding
		of   types.Holding
		want bool
	}{
		{types.Holding{}, device("gpu", "g0"), false},
		{types.Holding{Resource: "gpu", Amount: 1000, Devices: []types.DeviceShare{{ID: "g1", Share: 1000}}}, device("gpu", "g1"), false},
		{types.Holding{Resource: "gpu", Amount: 500, Devices: []types.DeviceShare{{ID: "g0", Share: 401}}}, device("gpu", "g0"), true},
		{types.Holding{Resource: "gpu", Amount: 500, Devices: []types.DeviceShare{{ID: "g0", Share: 401}}}, device("gpu", "g3"), false},
		{types.Holding{Resource: "d:gpu@r", Amount: 601, Devices: []types.DeviceShare{{ID: "g2", Share: 601}}}, device("d:gpu@r", "g2"), true},
		{types.Holding{Resource: "cpu", Amount: 1000}, types.Holding{Resource: "cpu", Amount: 1}, false},
		{types.Holding{Resource: "cpu", Amount: 1001}, types.Holding{Resource: "cpu", Amount: 1}, true},
		{types.Holding{Resource: "cpu", Amount: 1001}, types.Holding{Resource: "memory", Amount: 1}, false},
	} {
		r := On(v, v.Nodes["n1"])
		r.Hold([]types.Holding{c.more})
		if got := r.Overdrawn(c.of); got != c.want {
			t.Errorf("%+v more: %+v is overdrawn: %t", c.more, c.of, got)
		}
	}
}
