package devices

import (
	"slices"
	"time"

	"github.com/escher-sched/escher/types"
)

// Gone is why a device is unhealthy that neither a CDI specification nor a driver has any
// more.
const Gone = "gone: nothing describes it any more"

// merge returns what is found, with what was known of it as far as its driver says
// nothing, and what was known and is not found. patient tells that a driver that does not
// answer is waited for a little longer.
func merge(known []types.Device, now []found, at time.Time, patient bool) []types.Device {
	var all []types.Device
	for i := range now {
		d, was := now[i].Device, deviceOf(known, now[i].ID)
		if now[i].partial {
			remember(&d, was, patient)
		}
		// A slice may be of nobody knows what, and a device be named twice.
		if d.Resource != "" && deviceOf(all, d.ID) == nil {
			all = append(all, since(d, was, at))
		}
	}
	for i := range known {
		if deviceOf(all, known[i].ID) == nil {
			d := known[i]
			d.Unhealthy = Gone
			all = append(all, since(d, &known[i], at))
		}
	}
	sortDevices(all)
	return all
}

// remember fills in what is not told of a device from what was known of it, nil for
// nothing.
func remember(d *types.Device, was *types.Device, patient bool) {
	if was == nil {
		return
	}
	// What a slice is, only its driver knows.
	if d.Resource == "" {
		d.Resource, d.Model = was.Resource, was.Model
	}
	d.MemoryBytes, d.Links = was.MemoryBytes, was.Links
	if d.Bus == "" {
		d.Bus, d.NUMA, d.Parent = was.Bus, was.NUMA, was.Parent
	}
	if d.Model == "" {
		d.Model = was.Model
	}
	if patient && d.Unhealthy == silentReason && was.Unhealthy != Gone {
		d.Unhealthy = was.Unhealthy
	}
}

// since notes when the reason that a device is unhealthy began to hold.
func since(d types.Device, was *types.Device, at time.Time) types.Device {
	switch {
	case d.Unhealthy == "":
		d.UnhealthySince = 0
	case was != nil && was.Unhealthy == d.Unhealthy && was.UnhealthySince != 0:
		d.UnhealthySince = was.UnhealthySince
	default:
		d.UnhealthySince = at.UnixNano()
	}
	return d
}

// deviceOf returns the device of that name, nil if there is none.
func deviceOf(all []types.Device, id string) *types.Device {
	if i := slices.IndexFunc(all, func(d types.Device) bool { return d.ID == id }); i >= 0 {
		return &all[i]
	}
	return nil
}
