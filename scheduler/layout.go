package scheduler

import (
	"math/bits"
	"slices"

	"github.com/escher-sched/escher/types"
)

// Which whole devices a task is given, when it asks for several and the node says
// where they are: first a set in which each has a link to each other one; else on as
// few NUMA nodes, with as many links, as can be. Of such sets the one that leaves
// what others may ask for: the fewest links to unused devices are cut, and what is
// left on the same NUMA nodes is least. Nothing of that needs a choice, and the
// first devices are taken of what is equal.

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

// layoutSize bounds the devices, and the links, of which it is looked at how they lie.
const layoutSize = 64

// layout is how the slots of one resource on one node lie to one another.
type layout struct {
	// unused are the devices that may be taken whole.
	unused devices
	// numa are the devices on the same NUMA node as the i-th, linked those on a link
	// that it is on, itself included.
	numa, linked vicinity
	// nowhere are the devices of which it is not known on which NUMA node they are.
	nowhere devices
	// flat tells that no device is nearer to one than to another: then the sets are not
	// filled in.
	flat bool
}

// lookedAt returns the slots of which it is looked at how they lie: of more than a layout
// can hold, the first that may be taken whole.
func lookedAt(slots []slot) []slot {
	if len(slots) <= layoutSize {
		return slots
	}
	first := make([]slot, 0, layoutSize)
	for i := range slots {
		if slots[i].untouched() && len(first) < layoutSize {
			first = append(first, slots[i])
		}
	}
	return first
}

// layOut finds out how slots lie, which are no more than a layout can hold.
func (l *layout) layOut(slots []slot) {
	l.flat = true
	for i := range slots {
		s := &slots[i]
		if s.untouched() {
			l.unused |= 1 << i
		}
		if s.device == nil || s.device.NUMA < 0 {
			l.nowhere |= 1 << i
		}
		if !sameNUMA(s, &slots[0]) || s.device != nil && len(s.device.Links) > 0 {
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
	l.link(slots)
}

func sameNUMA(a, b *slot) bool {
	return a.device == nil && b.device == nil || a.device != nil && b.device != nil && a.device.NUMA == b.device.NUMA
}

// link notes which devices are on links with which.
func (l *layout) link(slots []slot) {
	var names [layoutSize]string
	var on [layoutSize]devices
	known := 0
	for i := range slots {
		if slots[i].device == nil {
			continue
		}
		for _, name := range slots[i].device.Links {
			at := slices.Index(names[:known], name)
			if at < 0 && known < layoutSize {
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

// nearest returns a share of each of n unused devices, of which there are as many; nil if
// they cannot lie as the topology says.
func nearest(slots []slot, n int, so types.Topology, q types.Quantity) []types.DeviceShare {
	var l layout
	few := lookedAt(slots)
	l.layOut(few)
	s := l.choose(n, so)
	switch {
	case s.count() == n:
	case !lax(n, so):
		return nil
	default: // there are more than a layout can hold: the first will do
		few, s = slots, 0
	}
	out := make([]types.DeviceShare, 0, n)
	for i := range few {
		if len(out) < n && few[i].untouched() && (s == 0 || s.has(i)) {
			out = append(out, types.DeviceShare{ID: few[i].id, Share: q})
		}
	}
	return out
}

// nearest returns n unused devices: the set that costs least, of all or, where these are
// too many, of those grown from each device.
func (l *layout) nearest(n int) devices {
	unused := l.unused.count()
	switch {
	case unused <= n:
		return l.unused
	case l.flat:
		return l.unused.firstOf(n)
	case choices(unused, n) <= allChoices:
		return l.bestOf(n, nil)
	}
	return l.bestGrown(n, nil)
}

// bestGrown returns the best of the sets grown from each device, in which each is near to
// each, unless near is nil; 0 if there is none.
func (l *layout) bestGrown(n int, near *vicinity) devices {
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

// allChoices is up to how many sets all are looked at: those of any number of eight
// devices.
const allChoices = 128

// choices returns in how many ways n of all can be chosen, or a number beyond
// allChoices.
func choices(all, n int) int {
	sum := 1
	for i := range min(n, all-n) {
		if sum = sum * (all - i) / (i + 1); sum > allChoices {
			return sum
		}
	}
	return sum
}

// bestOf looks at all sets of n unused devices, allChoices at most, in ascending order, in
// which each is near to each, unless near is nil. 0: there is none.
func (l *layout) bestOf(n int, near *vicinity) devices {
	var at [layoutSize]devices // the unused ones
	all := 0
	for rest := l.unused; rest != 0; rest &= rest - 1 {
		at[all] = rest & -rest
		all++
	}
	var best devices
	var least setCost
	// Each number with n bits, and the next larger one (Gosper): which of at. It is counted
	// how many there are, for of 64 devices none is larger than all.
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

// grow returns n unused devices, the given one among them, of which each is near to each,
// unless near is nil; 0 if it comes to an end before.
func (l *layout) grow(seed, n int, near *vicinity) devices {
	s, from := devices(1)<<seed, l.unused
	if near != nil {
		from &= near[seed]
	}
	for range n - 1 {
		next, most := -1, 0
		for rest := from &^ s; rest != 0; rest &= rest - 1 {
			i := rest.first()
			if well := l.nearness(i, s); next < 0 || well > most {
				next, most = i, well
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

// nearness says how well the i-th device goes with those of s: by links, then by NUMA
// node, then by how little it takes from others.
func (l *layout) nearness(i int, s devices) int {
	near := (l.linked[i] & s).count() << 20
	if l.numa[i]&s != 0 {
		near += 1 << 18
	}
	left := l.unused &^ s
	return near - (l.linked[i]&left).count()<<8 - (l.numa[i] & left).count()
}

// setCost is what speaks against taking a set of devices, what counts most first.
type setCost struct {
	// apart is that of layout.apart.
	apart int
	// unlinked and cut are pairs of devices, counted twice: of the set, without a link;
	// and with a link, one of them left behind.
	unlinked, cut int
	// left are those left on the NUMA nodes of the set.
	left int
}

func (c setCost) less(o setCost) bool {
	switch {
	case c.apart != o.apart:
		return c.apart < o.apart
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
	c.apart = max(0, numas)
	if c.unlinked > 0 {
		c.apart += layoutSize
	}
	return c
}

// apart is how far n devices to be taken are from one another: 0 is on links all, and
// on one NUMA node; more is on several of these; without all of the links it is more
// than that.
func (l *layout) apart(n int, so types.Topology) int {
	switch {
	case n < 2:
		return 0
	case l.flat:
		return layoutSize
	}
	return l.cost(l.choose(n, so)).apart
}
