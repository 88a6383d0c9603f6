package match

import (
	"fmt"
	"testing"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// spaceScript is two nodes of 4 cpu, of which one is half full, with a pool and a grant.
const spaceScript = `
put nodes/n1 {"Capacity": {"cpu": "4"}}
put alive/n1 {}
put nodes/n2 {"Capacity": {"cpu": "4", "gpu": "1"}}
put alive/n2 {}
put devices/n2 {"Devices": [{"ID": "g0", "Resource": "gpu", "Unhealthy": "hot"}]}
put resources/d/slots/* {"Capacity": 3000}
put allocated/*/d/slots {"Holds": [{"Resource": "d:slots", "Amount": 2000}]}
put allocated/n1 {"Holds": [{"Resource": "cpu", "Amount": 2000}]}
`

// TestFit counts the needs that fit together, in order.
func TestFit(t *testing.T) {
	v := world(t, spaceScript)
	grant := &types.Grant{Nodes: []types.GrantNode{{Node: "n1", Holds: []types.Holding{{Resource: "cpu", Amount: 1000}, {Resource: "d:slots", Amount: 1000, Cluster: true}}}}}
	cpu := func(q types.Quantity) []cluster.Need { return []cluster.Need{need("cpu", q)} }
	slot := []cluster.Need{need("cpu", 1000), need("d:slots", 1000)}
	limit := func(q types.Quantity) map[types.ResourceID]types.Quantity {
		return map[types.ResourceID]types.Quantity{"cpu": q}
	}
	for name, c := range map[string]struct {
		space Space
		needs [][]cluster.Need
		want  int
	}{
		"no needs":                          {Present(v), nil, 0},
		"all of it":                         {Present(v), [][]cluster.Need{cpu(2000), cpu(2000), cpu(2000)}, 3},
		"one too many":                      {Present(v), [][]cluster.Need{cpu(2000), cpu(2000), cpu(2000), cpu(1)}, 3},
		"a large one between small ones":    {Present(v), [][]cluster.Need{cpu(1000), cpu(5000), cpu(1000)}, 2},
		"back to a node with other needs":   {Present(v), [][]cluster.Need{cpu(3000), cpu(2000), cpu(1000)}, 3},
		"a pool that is short":              {Present(v), [][]cluster.Need{slot, slot}, 1},
		"an empty pool":                     {Empty(v), [][]cluster.Need{slot, slot, slot, slot}, 3},
		"empty nodes":                       {Empty(v), [][]cluster.Need{cpu(4000), cpu(4000), cpu(1)}, 2},
		"an unhealthy device":               {Present(v), [][]cluster.Need{{need("gpu", 1000)}}, 0},
		"an unhealthy device, ever":         {Empty(v), [][]cluster.Need{{need("gpu", 1000)}, {need("gpu", 1000)}}, 1},
		"with a grant returned":             {Present(v).With(grant), [][]cluster.Need{cpu(3000), cpu(4000), cpu(1)}, 2},
		"with its part of a pool returned":  {Present(v).With(grant), [][]cluster.Need{slot, slot, slot}, 2},
		"with no grant":                     {Present(v).With(nil), [][]cluster.Need{cpu(3000), cpu(3000)}, 1},
		"an empty space ignores a grant":    {Empty(v).With(grant), [][]cluster.Need{slot, slot, slot, slot}, 3},
		"a limit below what is free":        {Present(v).Limited(limit(1000)), [][]cluster.Need{cpu(1000), cpu(1000), cpu(1000)}, 2},
		"a limit above what is free":        {Present(v).Limited(limit(9000)), [][]cluster.Need{cpu(9000), cpu(9000), cpu(9000)}, 2},
		"no limit":                          {Present(v).Limited(limit(types.Inf)), [][]cluster.Need{cpu(types.MaxQuantity), cpu(types.MaxQuantity), cpu(1)}, 3},
		"a limit of what a pool is asked":   {Present(v).Limited(map[types.ResourceID]types.Quantity{"d:slots": 2000}), [][]cluster.Need{slot, slot, slot}, 3},
		"a limit of 0":                      {Present(v).Limited(limit(0)), [][]cluster.Need{cpu(1)}, 0},
		"a need that a node lacks":          {Present(v), [][]cluster.Need{{need("disk", 1)}}, 0},
		"nothing that is asked of no limit": {Present(v), [][]cluster.Need{nil, nil}, 2},
	} {
		if got := c.space.Fit([]*cluster.Node{v.Nodes["n1"], v.Nodes["n2"]}, c.needs); got != c.want {
			t.Errorf("%s: %d fit, want %d", name, got, c.want)
		}
	}
	if got := Present(v).Fit(nil, [][]cluster.Need{cpu(1)}); got != 0 {
		t.Errorf("%d fit on no node", got)
	}
	if d := v.Nodes["n2"].Devices.V.Devices[0]; d.Unhealthy == "" {
		t.Error("an empty space has changed its view")
	}
}

// TestScores checks the order of nodes: near devices first, then the least load, then fewer tasks.
func TestScores(t *testing.T) {
	v := world(t, devicesScript+`
put nodes/n2 {"Capacity": {"cpu": "4", "gpu": "2"}}
put alive/n2 {}
put devices/n2 {"Devices": [{"ID": "g0", "Resource": "gpu", "NUMA": 0, "Links": ["a"]}, {"ID": "g1", "Resource": "gpu", "NUMA": 1, "Links": ["a"]}]}
put nodes/n3 {"Capacity": {"gpu": "2"}}
put devices/n3 {"Devices": [{"ID": "g0", "Resource": "gpu", "Model": "L4"}, {"ID": "g1", "Resource": "gpu", "Model": "L4"}]}
put tasks/d/a {}
put bindings/n2/d/a/1 {"Session": 1}
`)
	n1, n2, n3 := On(v, v.Nodes["n1"]), On(v, v.Nodes["n2"]), On(v, v.Nodes["n3"])
	task := float64(n2.Tasks()) * taskLoad
	for _, c := range []struct {
		r     *Room
		needs []cluster.Need
		want  Score
	}{
		{&n1, nil, Score{}}, {&n1, []cluster.Need{need("cpu", 0)}, Score{Load: 0.75}}, {&n1, []cluster.Need{need("cpu", 1000), need("memory", 4)}, Score{Load: 1}},
		{&n1, []cluster.Need{need("memory", 2)}, Score{Load: 0.25}}, {&n1, []cluster.Need{need("port/80", 1000), need("node/n1", 1000), need("d:gpu@r", 1)}, Score{}},
		{&n1, []cluster.Need{need("disk", 1)}, Score{}}, {&n1, []cluster.Need{need("port", 1000)}, Score{Load: 2.0 / 3}},
		{&n2, nil, Score{Load: task}}, {&n2, []cluster.Need{need("gpu", 2000)}, Score{Distance: 1, Load: 1 + task}}, {&n2, []cluster.Need{need("gpu", 1000)}, Score{Load: 0.5 + task}},
		{&n3, []cluster.Need{need("gpu", 2000)}, Score{Distance: maxDevices, Load: 1}}, {&n3, []cluster.Need{wanted(2000, "L4", types.OneNUMA)}, Score{Distance: maxDevices, Load: 1}},
	} {
		if got := c.r.Score(c.needs); got != c.want {
			t.Errorf("%s, %+v: %+v, want %+v", c.r.Node.Name, c.needs, got, c.want)
		}
	}
	for _, c := range []struct {
		r     *Room
		needs []cluster.Need
		want  Score
	}{
		{&n2, []cluster.Need{need("gpu", 500), need("cpu", 1000)}, Score{Left: 1.5, Load: 0.25 + task}},
		{&n2, []cluster.Need{need("gpu", 2000)}, Score{Distance: 1, Load: task}},
		{&n1, []cluster.Need{need("memory", 2), need("port/80", 1000), need("node/n1", 1000), need("d:gpu@r", 1)}, Score{Load: 0.25}},
	} {
		if got := c.r.Left(c.needs); got != c.want {
			t.Errorf("%s, %+v: %+v left, want %+v", c.r.Node.Name, c.needs, got, c.want)
		}
	}
	for _, c := range [][2]Score{
		{{Load: 9}, {Distance: 1}}, {{Distance: 1, Load: 0.1}, {Distance: 1, Load: 0.2}}, {{Load: 0.5}, {Load: 0.5 + taskLoad}}, {{Load: -1}, {}},
		{{Left: 9, Load: 9}, {Distance: 1}}, {{Left: 0.8, Load: 0.9}, {Left: 0.81}}, {{Left: 1, Load: 0.1}, {Left: 1, Load: 0.2}},
	} {
		if !c[0].Better(c[1]) || c[1].Better(c[0]) || c[0].Better(c[0]) {
			t.Errorf("%+v and %+v are in the wrong order", c[0], c[1])
		}
	}
	for _, c := range [][2]types.Quantity{{0, 0}, {-1, 0}, {types.Inf, types.Inf}} {
		if got := share(c[0], c[1], 1000); got != 0 {
			t.Errorf("of a capacity of %d a share of %f", c[0], got)
		}
	}
	if got := share(1000, -500, 500); got != 2 {
		t.Errorf("of an overdrawn resource a share of %f", got)
	}
}

// TestDivide checks what each of several needs gets of the devices that there are.
func TestDivide(t *testing.T) {
	slots := []Slot{
		{ID: "a", Capacity: Whole, Device: &types.Device{ID: "a", Model: "H100", Links: []string{"x"}}}, {ID: "b", Capacity: Whole, Device: &types.Device{ID: "b", Model: "H100", Links: []string{"x"}}},
		{ID: "c", Capacity: Whole, Used: 600, Device: &types.Device{ID: "c", Model: "L4"}}, {ID: "d", Device: &types.Device{ID: "d", Model: "L4"}},
	}
	for name, c := range map[string]struct {
		free  types.Quantity
		needs []cluster.Need
		want  string
	}{
		"nothing asked":           {4000, nil, "{[] []}"},
		"nothing free":            {0, []cluster.Need{need("gpu", 1000)}, "{[0] []}"},
		"less than nothing free":  {-1000, []cluster.Need{need("gpu", 1000)}, "{[0] []}"},
		"all":                     {4000, []cluster.Need{need("gpu", 1000), need("gpu", 1000)}, "{[1000 1000] [{a 1000} {b 1000}]}"},
		"as much as there is":     {4000, []cluster.Need{need("gpu", 3000), need("gpu", 1000)}, "{[2000 0] [{a 1000} {b 1000}]}"},
		"as much as is free":      {1999, []cluster.Need{need("gpu", 3000)}, "{[1000] [{a 1000}]}"},
		"a part, and the rest":    {4000, []cluster.Need{need("gpu", 400), need("gpu", 500)}, "{[400 500] [{c 400} {a 500}]}"},
		"a part that is not free": {300, []cluster.Need{need("gpu", 400)}, "{[0] []}"},
		"all of a pair":           {4000, []cluster.Need{wanted(2000, "", types.LinkedDevices)}, "{[2000] [{a 1000} {b 1000}]}"},
		"nothing of a pair":       {4000, []cluster.Need{need("gpu", 1000), wanted(2000, "", types.LinkedDevices), need("gpu", 1000)}, "{[1000 0 1000] [{a 1000} {b 1000}]}"},
		"of a model":              {4000, []cluster.Need{wanted(1000, "L4", ""), wanted(400, "L4", "")}, "{[0 400] [{c 400}]}"},
		"twice of one device":     {4000, []cluster.Need{need("gpu", 100), need("gpu", 300)}, "{[100 300] [{c 400}]}"},
	} {
		v := Divide(slots, c.free, c.needs)
		if got := fmt.Sprint(v); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		var sum types.Quantity
		for _, d := range v.Devices {
			sum += d.Share
		}
		if sum != v.Sum() {
			t.Errorf("%s: devices for %d of %d", name, sum, v.Sum())
		}
	}
	only := Only(slots, []types.DeviceShare{{ID: "a", Share: 300}, {ID: "c", Share: 900}, {ID: "d", Share: 1000}})
	for i, want := range []types.Quantity{300, 0, 400, 0} {
		if only[i].Free() != want || only[i].Used != 0 {
			t.Errorf("%s: %d of %d are free, want %d", only[i].ID, only[i].Free(), only[i].Capacity, want)
		}
	}
	if slots[2].Used != 600 || slots[0].Used != 0 {
		t.Errorf("the slots were changed: %+v", slots)
	}
}
