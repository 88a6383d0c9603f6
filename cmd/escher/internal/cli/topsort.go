package cli

import (
	"cmp"
	"slices"
	"strings"

	sampled "github.com/escher-sched/escher/nodeagent/machine/usage"
	"github.com/escher-sched/escher/types"
)

// topSort is what rows are sorted by: the most of it first, or the names.
type topSort string

const (
	sortDefault topSort = ""
	sortCPU     topSort = "cpu"
	sortMemory  topSort = "memory"
	sortIO      topSort = "io"
	sortGPU     topSort = "gpu"
	sortName    topSort = "name"
)

// topSorts are all there are.
func topSorts() []string {
	return []string{string(sortCPU), string(sortMemory), string(sortIO), string(sortGPU), string(sortName)}
}

// String implements pflag.Value.
func (s *topSort) String() string { return string(*s) }

// Type implements pflag.Value.
func (s *topSort) Type() string { return "string" }

// Set implements pflag.Value.
func (s *topSort) Set(text string) error {
	if !slices.Contains(topSorts(), text) {
		return types.Errorf(types.Invalid, "%q is unknown: use %s", text, strings.Join(topSorts(), ", "))
	}
	*s = topSort(text)
	return nil
}

// measures is what a row is sorted by; what is not known counts as 0.
type measures struct {
	name            string
	milli, io, busy float64
	bytes           int64
}

func (t topTask) measures() measures {
	m := measures{name: t.ID}
	if u := t.Usage; u != nil {
		m.milli, m.bytes, m.busy = orZero(u.CPUMilli), orZero(u.MemoryBytes), orZero(busy(u.Devices))
		m.io = orZero(u.IOReadBytesPerSecond) + orZero(u.IOWriteBytesPerSecond)
	}
	return m
}

func (n topNode) measures() measures {
	m := measures{
		name: n.Name, milli: orZero(n.sum.CPUMilli), bytes: orZero(n.sum.MemoryBytes),
		io: orZero(n.sum.IOReadBytesPerSecond) + orZero(n.sum.IOWriteBytesPerSecond),
	}
	if n.Usage != nil {
		m.busy = orZero(busy(n.Usage.Devices))
	}
	return m
}

// compare puts the most first; among equals those with more processor time and memory.
func (s topSort) compare(a, b measures) int {
	of := map[topSort]func(measures) float64{
		sortMemory: func(m measures) float64 { return float64(m.bytes) },
		sortIO:     func(m measures) float64 { return m.io },
		sortGPU:    func(m measures) float64 { return m.busy },
	}[s]
	if s == sortName {
		return cmp.Compare(a.name, b.name)
	}
	first := 0
	if of != nil {
		first = cmp.Compare(of(b), of(a))
	}
	return cmp.Or(first, cmp.Compare(roughly(b.milli), roughly(a.milli)), cmp.Compare(b.bytes, a.bytes))
}

// roughly makes what is nearly the same the same, so that rows do not change places
// all the time.
func roughly(milli float64) int { return int(milli/50 + 0.5) }

// busy is how busy devices are, in percent: their mean, nil if none tells.
func busy(devices []sampled.Device) *float64 {
	var sum float64
	n := 0
	for _, d := range devices {
		if d.BusyPercent != nil {
			sum += *d.BusyPercent
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return new(sum / float64(n))
}

func orZero[T int64 | float64](n *T) T {
	if n == nil {
		return 0
	}
	return *n
}
