package esl

import (
	"slices"

	"github.com/escher-sched/escher/types"
)

// Release counts what is held as free, or, with sign -1, as held again.
func (r *Room) Release(holds []types.Holding, sign types.Quantity) {
	if r.taken == nil {
		r.taken = make(map[types.ResourceID]types.Quantity)
	}
	for _, h := range holds {
		if h.Cluster || h.Resource.Scoped() {
			continue
		}
		list := r.DevicesOf(h.Resource)
		r.taken[h.Resource] -= sign * h.Amount
		for _, share := range h.Devices {
			for i := range list {
				if list[i].Device.ID == share.ID {
					list[i].Free += sign * share.Share
				}
			}
		}
	}
}

// Overdrawn reports whether more than there is of a holding was given away.
func (r *Room) Overdrawn(h types.Holding) bool {
	if free, ok := r.Free(h.Resource); ok && free < 0 {
		return true
	}
	for _, d := range r.DevicesOf(h.Resource) {
		if d.Free < 0 && slices.ContainsFunc(h.Devices, func(s types.DeviceShare) bool { return s.ID == d.Device.ID }) {
			return true
		}
	}
	return false
}
