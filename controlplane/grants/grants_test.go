package grants

import (
	"reflect"
	"slices"
	"testing"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// placed returns a bundle on a node, which holds one cpu, the given GPU, and one of a pool.
func placed(index int, node, gpu string) BundlePlacement {
	return BundlePlacement{Index: index, Node: &cluster.Node{Name: node}, Holds: []types.Holding{
		{Resource: "cpu", Amount: 1000},
		{Resource: "gpu", Amount: 1000, Devices: []types.DeviceShare{{ID: gpu, Share: 1000}}},
		{Resource: "d:lic", Amount: 1000, Cluster: true},
	}}
}

// of returns a reservation with n bundles.
func of(n int) *cluster.Reservation {
	return &cluster.Reservation{Info: cluster.Cell[types.Reservation]{Create: 7, V: &types.Reservation{Bundles: make([]types.Bundle, n)}}}
}

func TestNewSumsByNode(t *testing.T) {
	g := New(of(4), []BundlePlacement{placed(2, "n2", "a"), placed(0, "n1", "a"), placed(1, "n2", "b")})
	if g.Phase != types.Granted || g.Reservation != 7 || !slices.Equal(g.Bundles, []string{"n1", "n2", "n2", ""}) {
		t.Errorf("%+v", g)
	}
	for node, want := range map[string]types.Quantity{"n1": 1000, "n2": 2000} {
		for _, rid := range []types.ResourceID{"cpu", "gpu", "d:lic"} {
			if got := HeldOf(g.On(node), rid); got != want {
				t.Errorf("%s holds %d of %s, want %d", node, got, rid, want)
			}
		}
	}
	if got := len(Devices(g.On("n2"), "gpu")); got != 2 {
		t.Errorf("n2 holds %d devices, want both", got)
	}
}

func TestMovedKeepsTheOthers(t *testing.T) {
	r := of(3)
	g := New(r, []BundlePlacement{placed(0, "n1", "a"), placed(1, "n2", "a"), placed(2, "n2", "b")})
	before := Clone(g)
	from := &types.Grant{Nodes: []types.GrantNode{{Node: "n2", Holds: g.On("n2")}}}
	got := Moved(g, from, New(r, []BundlePlacement{placed(1, "n1", "b"), placed(2, "n3", "a")}))
	if !slices.Equal(got.Bundles, []string{"n1", "n1", "n3"}) || len(got.Nodes) != 2 {
		t.Errorf("%+v", got)
	}
	if HeldOf(got.On("n1"), "cpu") != 2000 || HeldOf(got.On("n2"), "cpu") != 0 || HeldOf(got.On("n3"), "d:lic") != 1000 {
		t.Errorf("%+v", got.Nodes)
	}
	if !Equal(g, before) {
		t.Errorf("it changed the grant that moves: %+v", g)
	}
	if Equal(got, before) || Equal(got, nil) {
		t.Error("it is equal to another grant")
	}
}

func TestWithout(t *testing.T) {
	shares := []types.DeviceShare{{ID: "a", Share: 1000}, {ID: "b", Share: 500}, {ID: "c", Share: 250}}
	want := []types.DeviceShare{{ID: "a", Share: 600}, {ID: "c", Share: 250}}
	if got := Without(shares, []types.DeviceShare{{ID: "a", Share: 400}, {ID: "b", Share: 500}}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestSameDevices changes each field of a request, also those that are added one day.
func TestSameDevices(t *testing.T) {
	a := types.DeviceRequest{Resource: "gpu", Models: []string{"H100"}, MinMemory: 1, Topology: types.OneNUMA}
	if !sameDevices([]types.DeviceRequest{a}, []types.DeviceRequest{a}) || sameDevices([]types.DeviceRequest{a}, nil) {
		t.Error("equal requests differ, or a request equals none")
	}
	for i := range reflect.TypeFor[types.DeviceRequest]().NumField() {
		b := a
		reflect.ValueOf(&b).Elem().Field(i).SetZero()
		if sameDevices([]types.DeviceRequest{a}, []types.DeviceRequest{b}) {
			t.Errorf("%+v and %+v are the same", a, b)
		}
	}
}
