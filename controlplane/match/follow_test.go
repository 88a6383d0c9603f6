package match

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// TestIndexFollowsRooms checks, over nodes that join, leave and change, that the index never says
// less than a node has: a search passes every node that fits. What it knows fully has the score of
// the room.
func TestIndexFollowsRooms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x Index
		var rooms []*Room
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 5).Draw(t, "step"); {
			case step == 0 || len(rooms) == 0:
				_, v, n := drawPlain(t)
				n.Alive.V = &types.Alive{}
				if rapid.IntRange(0, 4).Draw(t, "cordon") == 0 {
					n.Alive.V = nil // takes nothing
				}
				r := On(v, n)
				rooms = append(rooms, &r)
				x.Grow()
				x.AddColumns(n.Info.V)
				x.SetAll(len(rooms)-1, &r)
			case step == 1:
				at := rapid.IntRange(0, len(rooms)-1).Draw(t, "leaves")
				x.Remove(at)
				last := len(rooms) - 1
				rooms[at], rooms = rooms[last], rooms[:last]
			case step == 2:
				at := rapid.IntRange(0, len(rooms)-1).Draw(t, "locked")
				x.SetLocked(at, !x.Locked(at))
			default:
				at := rapid.IntRange(0, len(rooms)-1).Draw(t, "takes")
				if need := drawNeed(t); rooms[at].Fits([]cluster.Need{need}) {
					rooms[at].Take([]cluster.Need{need})
					x.Set(at, need.ID, rooms[at])
				}
			}
			checkIndex(t, &x, rooms, []cluster.Need{drawNeed(t)})
		}
	})
}

// checkIndex compares an index with rooms, and with what the room of each node says of needs.
func checkIndex(t *rapid.T, x *Index, rooms []*Room, needs []cluster.Need) {
	t.Helper()
	filters := x.Filters(needs, nil)
	asks, known := x.Asks(needs, nil)
	if need := needs[0]; !known && x.Has(need.ID) && need.Devices == nil && (need.ID == types.CPU || need.Amount <= Whole) {
		t.Fatalf("the index does not know all of %+v", needs)
	}
	for at, r := range rooms {
		if err := x.Check(at, r); err != nil {
			t.Fatalf("node %d: %v", at, err)
		}
		fits := r.Node.Eligible() && r.Fits(needs)
		if fits && (!Passes(filters, at) || Next(filters, at, len(rooms)) != at) {
			t.Fatalf("node %d of %d is skipped, though %+v fits", at, len(rooms), needs)
		}
		if need := needs[0]; !fits && Passes(filters, at) && x.Has(need.ID) && need.Devices == nil && (need.ID == types.CPU || need.Amount < Whole || need.Amount%Whole == 0) {
			t.Fatalf("node %d passes, though %+v does not fit", at, needs)
		}
		if !fits || !known {
			continue
		}
		if got, want := x.Score(asks, at), r.Score(needs); got != want {
			t.Fatalf("node %d has score %+v in the index, %+v by itself", at, got, want)
		}
		if got, want := x.Left(asks, at), r.Left(needs); got != want {
			t.Fatalf("node %d has %+v left in the index, %+v by itself", at, got, want)
		}
	}
}

// TestIndexIsBounded checks needs that the index does not know, and that it ignores the resources
// beyond its columns.
func TestIndexIsBounded(t *testing.T) {
	var x Index
	x.Grow()
	n := &types.Node{}
	for i := range maxColumns + 3 {
		n.Capacity = append(n.Capacity, types.Request{Name: fmt.Sprintf("acme.com/r%02d", i), Amount: 1000})
	}
	x.AddColumns(n)
	x.AddColumns(n)
	if len(x.columns) != maxColumns || !x.Has("acme.com/r15") || x.Has("acme.com/r16") {
		t.Errorf("%d columns", len(x.columns))
	}
	if got := x.Filters([]cluster.Need{need("acme.com/r16", 1), need("d:x", 1)}, nil); len(got) != 0 {
		t.Errorf("%d filters of what the index does not know", len(got))
	}
	for _, needs := range [][]cluster.Need{nil, {need("acme.com/r16", 1)}, {need("acme.com/r00", 1), need("d:x", 1)}, {{ID: "acme.com/r00", Amount: 1, Devices: &types.DeviceRequest{}}}} {
		if _, ok := x.Asks(needs, nil); ok {
			t.Errorf("the index knows all of %+v", needs)
		}
	}
	if _, ok := x.Asks([]cluster.Need{need("acme.com/r00", 5000)}, nil); !ok {
		t.Error("the index does not know what it has")
	}
	if Next(x.Filters([]cluster.Need{need("acme.com/r00", 1)}, nil), 0, 1) != 1 || Next(nil, 3, 7) != 3 {
		t.Error("a node without an entry is found, or one is skipped that nothing is required of")
	}
}

// TestOverlays checks what a decision brings, ends and grants on a node, before it is stored.
func TestOverlays(t *testing.T) {
	v := world(t, devicesScript+`
put tasks/d/a {"Provides": [{"Name": "co", "Amount": 1000, "When": "bound"}]}

put bindings/n1/d/a/1 {"Session": $(alive/n1), "Provides": [{"Name": "co", "Amount": 1000, "When": "bound"}]}
`)
	n := v.Nodes["n1"]
	ended := n.Bindings
	grant := &types.Grant{Phase: types.Granted, Nodes: []types.GrantNode{{Node: "n1", Holds: []types.Holding{{Resource: "gpu", Amount: 500, Devices: []types.DeviceShare{{ID: "g3", Share: 500}}}}}}}
	free := func(o Overlay, id types.ResourceID) types.Quantity {
		r := Over(v, n, o)
		q, _ := r.Free(id)
		return q
	}
	for name, c := range map[string]struct{ got, want types.Quantity }{
		"as stored":      {free(Overlay{}, "cpu"), 1000},
		"provided":       {free(Overlay{}, "d:co"), 1000},
		"ended":          {free(Overlay{Ended: ended}, "d:co"), 0},
		"offered":        {free(Overlay{Offered: map[types.ResourceID]types.Quantity{"d:co": 500}}, "d:co"), 1500},
		"offered, ended": {free(Overlay{Ended: ended, Offered: map[types.ResourceID]types.Quantity{"d:co": 500}}, "d:co"), 500},
		"offered, new":   {free(Overlay{Offered: map[types.ResourceID]types.Quantity{"d:new": 500}}, "d:new"), 500},
		"nothing in use": {free(Overlay{Allocated: &types.Allocated{}}, "cpu"), 4000},
		"full":           {free(Overlay{Allocated: &types.Allocated{Holds: make([]types.Holding, types.MaxHeld)}}, "cpu"), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d are free, want %d", name, c.got, c.want)
		}
	}
	granted := Over(v, n, Overlay{Granted: map[cluster.ID]*types.Grant{{Namespace: "d", ID: "r"}: grant}, Offered: map[types.ResourceID]types.Quantity{"d:gpu@q": 1}})
	if slots := granted.Slots("d:gpu@r", nil); len(slots) != 1 || slots[0].ID != "g3" || slots[0].Capacity != 500 || slots[0].Device == nil || slots[0].Device.ID != "g3" {
		t.Errorf("%+v", slots)
	}
	if slots := granted.Slots("d:gpu@q", nil); len(slots) != 0 {
		t.Errorf("%+v", slots)
	}
	// A grant with a device that its node no longer lists, with one of another resource, and a port.
	grant.Nodes[0].Holds = []types.Holding{
		{Resource: "acme.com/x", Amount: 1000, Devices: []types.DeviceShare{{ID: "x0", Share: 1000}}},
		{Resource: "gpu", Amount: 2000, Devices: []types.DeviceShare{{ID: "g3", Share: 1000}, {ID: "g9", Share: 1000}}},
		{Resource: "port", Amount: 1000, Devices: []types.DeviceShare{{ID: "100", Share: 1000}}},
	}
	if slots := granted.Slots("d:gpu@r", nil); len(slots) != 2 || slots[0].Capacity != Whole || slots[1].ID != "g9" || slots[1].Capacity != 0 {
		t.Errorf("%+v", slots)
	}
	if slots := granted.Slots("d:port@r", nil); len(slots) != 1 || slots[0].Capacity != Whole {
		t.Errorf("%+v", slots)
	}
	bound := Over(v, n, Overlay{Bound: 2})
	if bound.Tasks() != 3 {
		t.Errorf("%d tasks", bound.Tasks())
	}
	// An amount below 0 is capacity that goes with its provider.
	r := On(v, n)
	if r.Return([]types.Holding{{Resource: "d:co", Amount: -1000}, {Resource: "d:slots", Amount: 5, Cluster: true}}); r.Tasks() != 1 {
		t.Errorf("%d tasks", r.Tasks())
	}
	if q, _ := r.Free("d:co"); q != 0 {
		t.Errorf("%d are free without the provider", q)
	}
}

// TestPortsFree checks that a port has one holder, under its number or as a port of the range.
func TestPortsFree(t *testing.T) {
	v := world(t, devicesScript)
	r := On(v, v.Nodes["n1"])
	r.Hold([]types.Holding{{Resource: "port/102", Amount: Whole}})
	inRange := func(ids ...string) types.Holding {
		h := types.Holding{Resource: types.Port}
		for _, id := range ids {
			h.Devices = append(h.Devices, types.DeviceShare{ID: id, Share: Whole})
		}
		return h
	}
	for _, c := range []struct {
		h    types.Holding
		want bool
	}{
		{types.Holding{Resource: "port/100"}, true}, {types.Holding{Resource: "port/101"}, false}, {types.Holding{Resource: "port/10"}, true},
		{inRange("100"), true}, {inRange("102"), false}, {inRange("100", "102"), false}, {inRange("1"), true}, {inRange(), true}, {types.Holding{Resource: "cpu"}, true},
	} {
		if got := r.PortsFree(c.h); got != c.want {
			t.Errorf("%+v: free %t", c.h, got)
		}
	}
	if got := fmt.Sprint(r.PickDevices(need(types.Port, Whole))); got != "[{100 1000}]" || r.PickDevices(need(types.Port, 2*Whole)) != nil {
		t.Errorf("%s is left", got)
	}
}
