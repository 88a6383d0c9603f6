package match

import (
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Division is what several needs get of the devices of one resource.
type Division struct {
	// Amounts has one entry for each need.
	Amounts []types.Quantity
	// Devices are the shares of all needs together.
	Devices []types.DeviceShare
}

// Sum returns the amounts of all needs.
func (v Division) Sum() types.Quantity {
	var sum types.Quantity
	for _, x := range v.Amounts {
		sum = sum.Add(x)
	}
	return sum
}

// Divide gives needs, one after another, as much as possible of slots, with a total of free. A need
// with a topology, or for a part of a device, gets all of its amount or nothing.
func Divide(slots []Slot, free types.Quantity, needs []cluster.Need) Division {
	slots = slices.Clone(slots)
	all := &types.Allocated{}
	v := Division{Amounts: make([]types.Quantity, len(needs))}
	for i, x := range needs {
		step := Whole
		if TopologyOf(x) != types.AnyTopology || x.Amount%Whole != 0 {
			step = x.Amount
		}
		wanted := slices.Clone(slots)
		Restrict(wanted, x.Devices)
		amount := max(0, min(x.Amount, free))
		var picked []types.DeviceShare
		for amount -= amount % step; amount > 0 && picked == nil; amount -= step {
			if picked = Pick(wanted, amount, TopologyOf(x)); picked != nil {
				v.Amounts[i] = amount
			}
		}
		free -= v.Amounts[i]
		for j := range slots {
			slots[j].Used += ShareOf(picked, slots[j].ID)
		}
		all.Take(types.Holding{Amount: v.Amounts[i], Devices: picked})
	}
	v.Devices = all.DevicesOf("")
	return v
}

// Only returns slots with nothing but the given shares.
func Only(slots []Slot, shares []types.DeviceShare) []Slot {
	out := slices.Clone(slots)
	for i := range out {
		s := &out[i]
		s.Capacity, s.Used = min(ShareOf(shares, s.ID), s.Free()), 0
	}
	return out
}
