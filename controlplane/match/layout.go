package match

import (
	"math/bits"
	"slices"

	"github.com/escher-sched/escher/types"
)

// Which whole devices a task gets when it asks for several and the node says where they are:
// a set in which every two devices share a link, if there is one; otherwise a set on as few NUMA
// nodes, with as many links, as possible. Among such sets, the best one leaves most to others: it
// cuts the fewest links to unused devices, then leaves the fewest devices on the same NUMA nodes.
// Nothing is random: among equal sets, the first devices win.

// devices is a set of the devices of a layout: bit i is the i-th slot.
type devices uint64

func (s devices) has(i int) bool { return s>>i&1 != 0 }
func (s devices) count() int     { return bits.OnesCount64(uint64(s)) }
func (s devices) first() int     { return bits.TrailingZeros64(uint64(s)) }

// firstOf returns the first n of s.
func (s devices) firstOf(n int) devices {
	rest := s
	for range n {
		rest &= rest - 1
	}
	return s &^ rest
}

// maxDevices is the number of devices, and of links, that the topology search considers.
const maxDevices = 64

// adjacency is a relation of devices: of the i-th device the adjacent ones, itself included.
type adjacency [maxDevices]devices

// joins reports whether every two devices of s are adjacent.
func (a *adjacency) joins(s devices) bool {
	for rest := s; rest != 0; rest &= rest - 1 {
		if s&^a[rest.first()] != 0 {
			return false
		}
	}
	return true
}

// layout says which slots of one resource on one node are close to one another.
type layout struct {
	// unused are the devices that may be taken whole.
	unused devices
	// numa are the devices on the same NUMA node as the i-th, linked those on one of its links.
	numa, linked adjacency
	// nowhere are the devices whose NUMA node is not known.
	nowhere devices
	// flat reports that all devices are equally close. Then numa and linked are not filled in.
	flat bool
}

// considered returns the slots that a layout considers: of more than maxDevices, the first that
// may be taken whole.
func considered(slots []Slot) []Slot {
	if len(slots) <= maxDevices {
		return slots
	}
	first := make([]Slot, 0, maxDevices)
	for i := range slots {
		if slots[i].Unused() && len(first) < maxDevices {
			first = append(first, slots[i])
		}
	}
	return first
}

// read fills in the layout of at most maxDevices slots.
func (l *layout) read(slots []Slot) {
	l.flat = true
	for i := range slots {
		s := &slots[i]
		if s.Unused() {
			l.unused |= 1 << i
		}
		if s.Device == nil || s.Device.NUMA < 0 {
			l.nowhere |= 1 << i
		}
		if !sameNUMA(s, &slots[0]) || s.Device != nil && len(s.Device.Links) > 0 {
			l.flat = false
		}
	}
	if l.flat {
		return
	}
	for i := range slots {
		l.linked[i] = 1 << i
		for j := range i + 1 {
			if sameNUMA(&slots[i], &slots[j]) {
				l.numa[i] |= 1 << j
				l.numa[j] |= 1 << i
			}
		}
	}
	l.readLinks(slots)
}

func sameNUMA(a, b *Slot) bool {
	return a.Device == nil && b.Device == nil || a.Device != nil && b.Device != nil && a.Device.NUMA == b.Device.NUMA
}

// readLinks fills in which devices share a link.
func (l *layout) readLinks(slots []Slot) {
	var names [maxDevices]string
	var on [maxDevices]devices
	known := 0
	for i := range slots {
		if slots[i].Device == nil {
			continue
		}
		for _, name := range slots[i].Device.Links {
			at := slices.Index(names[:known], name)
			if at < 0 && known < maxDevices {
				at, names[known] = known, name
				known++
			}
			if at >= 0 {
				on[at] |= 1 << i
			}
		}
	}
	for _, s := range on[:known] {
		for rest := s; rest != 0; rest &= rest - 1 {
			l.linked[rest.first()] |= s
		}
	}
}

// closest calls take with the places in slots of n unused devices; not at all if no n of them meet
// the topology. There are at least n unused devices.
func closest(slots []Slot, n int, topology types.Topology, take func(i int)) {
	var l layout
	l.read(considered(slots))
	s := l.choose(n, topology)
	anyDevice := false
	switch {
	case s.count() == n:
	case !anySet(n, topology):
		return
	default: // there are more than a layout considers: the first ones will do
		anyDevice = true
	}
	unused := 0
	for i := range slots {
		if !slots[i].Unused() {
			continue
		}
		place := i // in the layout
		if len(slots) > maxDevices {
			place = unused
		}
		unused++
		if n > 0 && (anyDevice || s.has(place)) {
			take(i)
			n--
		}
	}
}

// choose returns n unused devices: the best set of all, or of those that meet the topology.
func (l *layout) choose(n int, topology types.Topology) devices {
	if anySet(n, topology) {
		return l.best(n)
	}
	return l.together(n, topology)
}

// best returns the best set of n unused devices. Where there are too many sets, it compares the
// sets grown from each device.
func (l *layout) best(n int) devices {
	unused := l.unused.count()
	switch {
	case unused <= n:
		return l.unused
	case l.flat:
		return l.unused.firstOf(n)
	case choices(unused, n) <= maxChoices:
		return l.bestOf(n, nil)
	}
	return l.bestGrown(n, nil)
}

// bestGrown returns the best of the sets of n devices grown from each unused device; 0 if there
// is none. Every two devices of the set are adjacent, unless near is nil.
func (l *layout) bestGrown(n int, near *adjacency) devices {
	var best devices
	var least setCost
	for seeds := l.unused; seeds != 0; seeds &= seeds - 1 {
		s := l.grow(seeds.first(), n, near)
		if s == 0 {
			continue
		}
		if c := l.cost(s); best == 0 || c.less(least) {
			best, least = s, c
		}
	}
	return best
}

// maxChoices is the number of sets up to which all are compared: that of any number of eight
// devices.
const maxChoices = 128

// choices returns in how many ways n of all can be chosen, or a number beyond maxChoices.
func choices(all, n int) int {
	sum := 1
	for i := range min(n, all-n) {
		if sum = sum * (all - i) / (i + 1); sum > maxChoices {
			return sum
		}
	}
	return sum
}

// bestOf compares all sets of n unused devices, at most maxChoices, in ascending order, and
// returns the best; 0 if there is none. Every two devices of the set are adjacent, unless near is
// nil.
func (l *layout) bestOf(n int, near *adjacency) devices {
	var at [maxDevices]devices // the unused ones
	all := 0
	for rest := l.unused; rest != 0; rest &= rest - 1 {
		at[all] = rest & -rest
		all++
	}
	var best devices
	var least setCost
	// Each number with n bits, and the next larger one (Gosper), says which of at. The loop
	// counts them, because of 64 devices no number is larger than that of all.
	chosen := uint64(1)<<n - 1
	for range choices(all, n) {
		var s devices
		for rest := chosen; rest != 0; rest &= rest - 1 {
			s |= at[bits.TrailingZeros64(rest)]
		}
		if near == nil || near.joins(s) {
			if c := l.cost(s); best == 0 || c.less(least) {
				best, least = s, c
			}
		}
		lowest := chosen & -chosen
		carried := chosen + lowest
		chosen = carried | (chosen^carried)>>2/lowest
	}
	return best
}

// grow returns n unused devices, the seed among them; 0 if it finds no more before. Every two of
// them are adjacent, unless near is nil.
func (l *layout) grow(seed, n int, near *adjacency) devices {
	s, from := devices(1)<<seed, l.unused
	if near != nil {
		from &= near[seed]
	}
	for range n - 1 {
		next, most := -1, 0
		for rest := from &^ s; rest != 0; rest &= rest - 1 {
			i := rest.first()
			if c := l.closeness(i, s); next < 0 || c > most {
				next, most = i, c
			}
		}
		if next < 0 {
			return 0
		}
		if s |= 1 << next; near != nil {
			from &= near[next]
		}
	}
	return s
}

// closeness says how well the i-th device goes with those of s: by links, then by NUMA node, then
// by how little it takes from others.
func (l *layout) closeness(i int, s devices) int {
	near := (l.linked[i] & s).count() << 20
	if l.numa[i]&s != 0 {
		near += 1 << 18
	}
	left := l.unused &^ s
	return near - (l.linked[i]&left).count()<<8 - (l.numa[i] & left).count()
}

// setCost ranks a set of devices: lower is better, compared element by element.
type setCost struct {
	// distance is that of layout.distance.
	distance int
	// unlinked counts the pairs of the set without a link, cut the links from the set to
	// devices left behind. Both count a pair twice.
	unlinked, cut int
	// left is the number of devices left on the NUMA nodes of the set.
	left int
}

func (c setCost) less(o setCost) bool {
	switch {
	case c.distance != o.distance:
		return c.distance < o.distance
	case c.unlinked != o.unlinked:
		return c.unlinked < o.unlinked
	case c.cut != o.cut:
		return c.cut < o.cut
	}
	return c.left < o.left
}

func (l *layout) cost(s devices) setCost {
	var c setCost
	others := l.unused &^ s
	var touched devices
	numas := -1
	for rest := s; rest != 0; rest &= rest - 1 {
		i := rest.first()
		c.unlinked += (s &^ l.linked[i]).count()
		c.cut += (others & l.linked[i]).count()
		if !touched.has(i) {
			touched |= l.numa[i]
			numas++
		}
	}
	c.left = (others & touched).count()
	c.distance = max(0, numas)
	if c.unlinked > 0 {
		c.distance += maxDevices
	}
	return c
}

// distance says how far the n devices that would be taken are from one another. 0: all share
// links, and one NUMA node. Each NUMA node more adds 1, a missing link maxDevices.
func (l *layout) distance(n int, topology types.Topology) int {
	switch {
	case n < 2:
		return 0
	case l.flat:
		return maxDevices
	}
	return l.cost(l.choose(n, topology)).distance
}
