package devices

import (
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/types"
)

const (
	// Gone is the reason for a device that neither a CDI specification nor a driver lists any more.
	Gone = "gone: nothing describes it any more"
	// Moved is the reason for a device whose name now belongs to another device, or which has
	// another name: while a task holds it by this name, no other task gets it by the other one.
	Moved = "gone: its name and its place on the bus do not belong together any more"
	// heldAs is the beginning of the reason for a device that a task may hold by another name.
	heldAs = "may be held as "
)

// IsGone reports whether a reason means that no device of that name exists: Gone or Moved.
func IsGone(unhealthy string) bool { return unhealthy == Gone || unhealthy == Moved }

// merge returns the found devices, completed by known data where their driver does not answer, and
// the known devices that were not found. Of a device with several names, only the known name is
// healthy. patient means to wait longer for a driver that does not answer.
func merge(known []types.Device, now []found, at time.Time, patient bool) []types.Device {
	all := remembered(known, now, patient)
	var left []types.Device
	for i := range known {
		if deviceOf(all, known[i].ID) == nil {
			left = append(left, known[i])
		}
	}
	for i := range all {
		if other := otherName(&all[i], all[:i], left); other != "" && all[i].Unhealthy == "" {
			all[i].Unhealthy = heldAs + other
		}
	}
	for i := range left {
		k := &left[i]
		k.Unhealthy = Gone
		if slices.ContainsFunc(now, func(n found) bool { return n.ID == k.ID || mayBeOne(k, &n.Device) }) {
			k.Unhealthy = Moved
		}
	}
	all = append(all, left...)
	for i := range all {
		all[i] = since(all[i], deviceOf(known, all[i].ID), at)
	}
	sortDevices(all)
	return all
}

// remembered returns the found devices, each name once, completed by known data.
func remembered(known []types.Device, now []found, patient bool) []types.Device {
	var all []types.Device
	for i := range now {
		d, was := now[i].Device, deviceOf(known, now[i].ID)
		switch {
		case was == nil:
		case d.Bus != "" && was.Bus != "" && d.Bus != was.Bus:
			continue // A task that holds this name holds another device. That must end first.
		case now[i].partial:
			remember(&d, was, patient)
		case now[i].unlinked:
			d.Links = was.Links
		}
		// The parent of a slice may be unknown.
		if d.Resource != "" && deviceOf(all, d.ID) == nil {
			all = append(all, d)
		}
	}
	return all
}

// otherName returns another name by which a task may hold a device: one of listed, or one of left,
// which are not found; "" means none.
func otherName(d *types.Device, listed, left []types.Device) string {
	for i := range listed {
		if o := &listed[i]; mayBeOne(d, o) && d.Parent == "" && o.Parent == "" {
			return o.ID
		}
	}
	for i := range left {
		if mayBeOne(d, &left[i]) {
			return left[i].ID
		}
	}
	return ""
}

// mayBeOne reports whether two names may be of one device, or of a GPU and its slice: they have the
// same place. All slices of a GPU do; two slices with the same kind of name are different.
func mayBeOne(a, b *types.Device) bool {
	if a.ID == b.ID || a.Bus == "" || a.Bus != b.Bus {
		return false
	}
	named := func(d *types.Device) bool { _, name, _ := strings.Cut(d.ID, "="); return isUUID(name) }
	return a.Parent == "" || b.Parent == "" || a.Resource == b.Resource && named(a) != named(b)
}

// remember completes a device by what is known of it.
func remember(d *types.Device, was *types.Device, patient bool) {
	// Only the driver knows the type of a slice.
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
	switch {
	case patient && d.Unhealthy == silentReason && !IsGone(was.Unhealthy):
		d.Unhealthy = was.Unhealthy
	case d.Unhealthy == "" && !seenHere(was.Unhealthy):
		d.Unhealthy = was.Unhealthy // No driver reports that it is healthy.
	}
}

// seenHere reports whether a reason is found without the driver, each time.
func seenHere(unhealthy string) bool {
	switch unhealthy {
	case Gone, Moved, noSpec, silentReason:
		return true
	}
	return slices.ContainsFunc([]string{heldAs, noFile, "Xid "}, func(begin string) bool { return strings.HasPrefix(unhealthy, begin) })
}

// since sets the time since which the device has its reason.
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

// deviceOf returns the device of that name; nil if there is none.
func deviceOf(all []types.Device, id string) *types.Device {
	if i := slices.IndexFunc(all, func(d types.Device) bool { return d.ID == id }); i >= 0 {
		return &all[i]
	}
	return nil
}
