package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Texts about requests that restrict the devices: amounts and free amounts count only matching
// devices.

// wantOf is a need in words: "4 gpu of model H100".
func wantOf(ns string, x cluster.Need) string {
	return why.AmountOf(ns, x.ID, x.Amount) + which(x)
}

// which describes the wanted devices, for use after the resource name.
func which(x cluster.Need) string {
	if x.Devices == nil {
		return ""
	}
	return " " + x.Devices.String()
}

// such returns the free amount, and the capacity, of the devices on n that x accepts; free bounds
// the former.
func (e *explainer) such(n *cluster.Node, x cluster.Need, free types.Quantity) (unused, capacity types.Quantity) {
	for _, s := range e.d.EverSlots(n, x) {
		capacity += s.Capacity
	}
	for _, s := range e.d.SlotsFor(n, x) {
		switch {
		case x.Amount < match.Whole:
			unused = max(unused, s.Free())
		case s.Unused():
			unused += match.Whole
		}
	}
	return min(unused, max(free, 0)), capacity
}

// astrayDevices says why devices of n do not qualify, where the amounts do not say it.
func (e *explainer) astrayDevices(n *cluster.Node, x lack) string {
	var parts []string
	devices := e.d.Slots(n, x.ID, nil)
	for _, s := range devices {
		if s.Device != nil && s.Device.Unhealthy != "" && x.Devices.Takes(s.Device) {
			parts = append(parts, fmt.Sprintf("%s is unhealthy: %s", s.ID, s.Device.Unhealthy))
		}
	}
	switch so := (&types.DeviceRequest{Topology: x.Devices.Topology}).String(); {
	case !x.known:
	case len(devices) == 0:
		parts = append(parts, "it does not say which it has")
	case x.capacity < x.Amount:
		parts = append(parts, "it has "+inventory(devices))
	case x.Amount > match.Whole && x.Amount%match.Whole != 0:
		parts = append(parts, "more than one is given out only as a whole number")
	case x.free >= x.Amount && so != "":
		parts = append(parts, fmt.Sprintf("of the free ones no %s are %s", x.Amount.Format(x.ID), so))
	}
	return strings.Join(parts, ", ")
}

// inventory lists the devices: "4 of model NVIDIA L4 with 24Gi memory".
func inventory(devices []match.Slot) string {
	var kinds []string
	counts := make(map[string]int)
	for _, s := range devices {
		kind := "of which nothing is known"
		if d := s.Device; d != nil {
			kind = "of no model that is known"
			if d.Model != "" {
				kind = "of model " + d.Model
			}
			if d.MemoryBytes > 0 {
				kind += " with " + types.Quantity(d.MemoryBytes).Format(types.Memory) + " memory"
			}
		}
		if counts[kind]++; counts[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d %s", counts[kind], kind)
	}
	return list(kinds)
}

// noneSuch says why no registered node has enough of the wanted devices, if some have enough of any
// kind; ok is false if none have.
func (e *explainer) noneSuch(f *finding, x cluster.Need, placed []candidate, where string) (r why.Reason, ok bool) {
	anyOf := cluster.Need{ID: x.ID, Amount: x.Amount}
	var most types.Quantity
	nearest, large := placed[0].node, false
	for _, c := range placed {
		large = large || len(e.everLacking(c.node, []cluster.Need{anyOf})) == 0
		if l, _ := c.lacking(x.ID); l.capacity > most {
			most, nearest = l.capacity, c.node
		}
	}
	if x.Devices == nil || !large {
		return why.Reason{}, false
	}
	want, devices := wantOf(f.ns, x), e.d.Slots(nearest, x.ID, nil)
	of := plural(len(placed), nearest.Name+where, fmt.Sprintf("none of %d nodes%s", len(placed), where))
	has := plural(len(placed), "has none", "has any")
	switch {
	case len(devices) == 0:
		return because(why.DevicesUnknown, fmt.Sprintf("it asks for %s, and %s%s does not say which %s it has", want, nearest.Name, where, x.ID),
			types.Textf("Leave out which devices, or have the agent of %s report them. See those that are known: %s.", nearest.Name, action.ListDevices.Of())), true
	case most == 0:
		return because(why.NoSuchDevices, fmt.Sprintf("it asks for %s, and %s %s: %s has %s", want, of, has, nearest.Name, inventory(devices)),
			types.Textf("Ask for devices that there are (%s), or add a node that has such.", action.ListDevices.Of())), true
	case most < x.Amount:
		return because(why.NoSuchDevices, fmt.Sprintf("it asks for %s, and %s, which comes closest%s, has %s such", want, nearest.Name, where, most.Format(x.ID)),
			types.Textf("Ask for at most %s, or add a node that has more of them.", why.AmountOf(f.ns, x.ID, most))), true
	}
	return because(why.NoSuchDevices,
		fmt.Sprintf("it asks for %s, and no node%s has so many with that topology: %s, which comes closest, has %s without it", want, where, nearest.Name, most.Format(x.ID)),
		types.Textf("Request fewer, or leave the topology out. See the topology: %s.", action.ListDevices.Of())), true
}

// holdSuch returns the holders of a device that x accepts on n.
func (e *explainer) holdSuch(n *cluster.Node, x cluster.Need, holders []why.Holder) []why.Holder {
	if x.Devices == nil {
		return holders
	}
	var out []why.Holder
	for _, h := range holders {
		if slices.ContainsFunc(h.Devices, func(id string) bool { d := match.DeviceOf(n, id); return d != nil && x.Devices.Takes(d) }) {
			out = append(out, h)
		}
	}
	return out
}

// devicesOf returns the device requests of needs.
func devicesOf(needs []cluster.Need) []types.DeviceRequest {
	var out []types.DeviceRequest
	for _, x := range needs {
		if x.Devices != nil {
			out = append(out, *x.Devices)
		}
	}
	return out
}

// suchOf is the word before the resource name of a lack that restricts the devices.
func suchOf(l lack) string {
	if l.Devices == nil {
		return ""
	}
	return "such "
}

// lessOf is the word for the alternative to a lack.
func lessOf(l lack) string {
	if l.Devices == nil {
		return "less"
	}
	return "other"
}

// notInGrant: a reservation does not hold the wanted devices.
func (e *explainer) notInGrant(f *finding, l lack, n *cluster.Node, reservation string) why.Reason {
	return because(why.ReservationLacks, fmt.Sprintf("cannot run as long as reservation %s is as it is: it asks for %s, and that holds on %s %s",
		reservation, wantOf(f.ns, l.Need), n.Name, inventory(e.d.Slots(n, l.ID, nil))),
		types.Textf("Ask for devices that it holds, or make the reservation anew with such devices: %s", action.Unreserve.Of(reservation)))
}
