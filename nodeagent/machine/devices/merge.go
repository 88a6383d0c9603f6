package devices

import (
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/types"
)

const (
	// Gone is why a device is unhealthy that neither a CDI specification nor a driver has any
	// more.
	Gone = "gone: nothing describes it any more"
	// Moved is why one is whose name is another device's now, or that has another name: as
	// long as somebody holds it by this one, nobody gets it by the other.
	Moved = "gone: its name and its place on the bus do not belong together any more"
	// heldAs begins the reason of a device that somebody may hold by another name.
	heldAs = "may be held as "
)

// IsGone reports whether a reason is that of a device that is not there any more by that
// name: Gone or Moved.
func IsGone(unhealthy string) bool { return unhealthy == Gone || unhealthy == Moved }

// merge returns what is found, with what was known of it as far as its driver says
// nothing, and what was known and is not found. Of one thing with several names nothing is
// well but that by which it was known. patient tells that a driver that does not answer is
// waited for a little longer.
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

// remembered returns what is found, each name once, with what was known of it.
func remembered(known []types.Device, now []found, patient bool) []types.Device {
	var all []types.Device
	for i := range now {
		d, was := now[i].Device, deviceOf(known, now[i].ID)
		switch {
		case was == nil:
		case d.Bus != "" && was.Bus != "" && d.Bus != was.Bus:
			continue // Who holds it by this name holds another one: that is over first.
		case now[i].partial:
			remember(&d, was, patient)
		case now[i].unlinked:
			d.Links = was.Links
		}
		// A slice may be of nobody knows what.
		if d.Resource != "" && deviceOf(all, d.ID) == nil {
			all = append(all, d)
		}
	}
	return all
}

// otherName returns by what other name somebody may hold a device: one under which it is
// listed too, or one of those that are left of before; empty for none.
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

// mayBeOne reports whether two names may be of one thing, or of a GPU and a slice of it:
// they are at the same place. Slices of a GPU all are; of two that are named alike, each is
// another one.
func mayBeOne(a, b *types.Device) bool {
	if a.ID == b.ID || a.Bus == "" || a.Bus != b.Bus {
		return false
	}
	named := func(d *types.Device) bool { _, name, _ := strings.Cut(d.ID, "="); return isUUID(name) }
	return a.Parent == "" || b.Parent == "" || a.Resource == b.Resource && named(a) != named(b)
}

// remember fills in what is not told of a device from what was known of it.
func remember(d *types.Device, was *types.Device, patient bool) {
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
	switch {
	case patient && d.Unhealthy == silentReason && !IsGone(was.Unhealthy):
		d.Unhealthy = was.Unhealthy
	case d.Unhealthy == "" && !seenHere(was.Unhealthy):
		d.Unhealthy = was.Unhealthy // Nobody says that it is well.
	}
}

// seenHere reports whether a reason is one that is looked for without asking the driver,
// each time.
func seenHere(unhealthy string) bool {
	switch unhealthy {
	case Gone, Moved, noSpec, silentReason:
		return true
	}
	return slices.ContainsFunc([]string{heldAs, noFile, "Xid "}, func(begin string) bool { return strings.HasPrefix(unhealthy, begin) })
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
