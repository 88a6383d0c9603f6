// Package match decides what fits where: how much of a resource is free on a node, whether a
// task's needs fit, which devices and ports they get, and which of several nodes is better.
// The scheduler binds by it, and explains by it why a task waits. It is pure: no I/O, no clock,
// no randomness. The invariant checks of controlplane/audit derive the same facts on their own,
// because they check what is decided here.
//
// A Room is one node as a decision leaves it: the stored state and an Overlay of what the
// decision has taken, returned, offered or ended. An Index lets a search skip full nodes.
//
// These rules hold for every caller:
//
//   - A cluster-wide resource is not on nodes. Room skips it; the caller counts it once.
//   - More than one device is only given out as a whole number of unused devices. A part of a
//     device comes from one device: from the one with the least room that is enough.
//   - An unhealthy device, a device the node does not list, and a device of an unwanted model
//     have nothing to give. A need that names models fits only where devices are known.
//   - A topology is strict: a need fits only where a set of unused devices meets it.
//     Without a topology, devices close to one another are preferred; see layout.go.
//   - A resource of a reservation is made of the devices that its grant holds.
//   - A port has one holder, whether it was given out by the node's range or by its number. Both
//     count after the range changes while ports are in use.
//   - A node that holds types.MaxHeld resources gives out no other resource.
package match
