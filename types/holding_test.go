package types

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

func TestTakeAndReturn(t *testing.T) {
	var a Allocated
	a.Take(Holding{Resource: "gpu", Amount: 1500, Devices: []DeviceShare{{"g0", 1000}, {"g1", 500}}})
	a.Take(Holding{Resource: "cpu", Amount: 250, Cluster: true})
	a.Take(Holding{Resource: "gpu", Amount: 500, Devices: []DeviceShare{{"g1", 500}}})
	a.Take(Holding{Resource: "zero"})
	want := []Holding{
		{Resource: "cpu", Amount: 250},
		{Resource: "gpu", Amount: 2000, Devices: []DeviceShare{{"g0", 1000}, {"g1", 1000}}},
	}
	if !reflect.DeepEqual(a.Holds, want) {
		t.Fatalf("got %+v, want %+v", a.Holds, want)
	}
	if a.Of("gpu") != 2000 || a.Of("memory") != 0 || len(a.DevicesOf("gpu")) != 2 || a.DevicesOf("cpu") != nil {
		t.Errorf("it says %d gpu, %d memory, devices %v and %v", a.Of("gpu"), a.Of("memory"), a.DevicesOf("gpu"), a.DevicesOf("cpu"))
	}
	a.Return(Holding{Resource: "gpu", Amount: 1500, Devices: []DeviceShare{{"g0", 1000}, {"g1", 500}}})
	if got := a.DevicesOf("gpu"); a.Of("gpu") != 500 || !slices.Equal(got, []DeviceShare{{"g1", 500}}) {
		t.Errorf("left are %d, %v", a.Of("gpu"), got)
	}
	a.Return(Holding{Resource: "gpu", Amount: 500, Devices: []DeviceShare{{"g1", 500}}})
	a.Return(Holding{Resource: "cpu", Amount: 250})
	a.Return(Holding{Resource: "never taken", Amount: 250})
	if len(a.Holds) != 0 {
		t.Errorf("left are %+v", a.Holds)
	}
}

func TestTakeDoesNotShareDevices(t *testing.T) {
	h := Holding{Resource: "gpu", Amount: 500, Devices: []DeviceShare{{"g0", 500}}}
	var a Allocated
	a.Take(h)
	b := a.Clone()
	b.Take(h)
	if h.Devices[0].Share != 500 || a.DevicesOf("gpu")[0].Share != 500 || b.DevicesOf("gpu")[0].Share != 1000 {
		t.Errorf("the holding says %v, the original %v, the copy %v", h.Devices, a.Holds, b.Holds)
	}
}

// Returning all that was taken, in any order, leaves nothing. In between the list is sorted and has
// no zeros.
func TestTakeAndReturnBalance(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var a Allocated
		var holds []Holding
		for range 20 {
			h := Holding{Resource: ResourceID(string(rune('a' + rng.IntN(5)))), Amount: Quantity(1 + rng.Int64N(1000))}
			if rng.IntN(2) == 0 {
				h.Devices = []DeviceShare{{ID: "d" + string(rune('0'+rng.IntN(3))), Share: h.Amount}}
			}
			holds = append(holds, h)
			a.Take(h)
		}
		rng.Shuffle(len(holds), func(i, j int) { holds[i], holds[j] = holds[j], holds[i] })
		for _, h := range holds {
			a.Return(h)
			if !slices.IsSortedFunc(a.Holds, func(x, y Holding) int { return compareStrings(string(x.Resource), string(y.Resource)) }) {
				t.Fatalf("not sorted: %+v", a.Holds)
			}
			for _, h := range a.Holds {
				if h.Amount == 0 {
					t.Fatalf("a zero is left: %+v", a.Holds)
				}
			}
		}
		if len(a.Holds) != 0 {
			t.Fatalf("left are %+v", a.Holds)
		}
	}
}
