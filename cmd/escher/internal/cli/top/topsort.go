package top

import (
	"cmp"
	"slices"
	"strings"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/types"
)

// topSort is the order of rows: by an amount, the largest first, or by name.
type topSort string

const (
	sortDefault topSort = ""
	sortCPU     topSort = "cpu"
	sortMemory  topSort = "memory"
	sortIO      topSort = "io"
	sortGPU     topSort = "gpu"
	sortName    topSort = "name"
)

// TopSorts are all orders.
func TopSorts() []string {
	return []string{string(sortCPU), string(sortMemory), string(sortIO), string(sortGPU), string(sortName)}
}

// String implements pflag.Value.
func (s *topSort) String() string { return string(*s) }

// Type implements pflag.Value.
func (s *topSort) Type() string { return "string" }

// Set implements pflag.Value.
func (s *topSort) Set(text string) error {
	if !slices.Contains(TopSorts(), text) {
		return types.Errorf(types.Invalid, "%q is unknown: use %s", text, strings.Join(TopSorts(), ", "))
	}
	*s = topSort(text)
	return nil
}

// measures are the sort keys of a row; unknown values count as 0.
type measures struct {
	name            string
	milli, io, busy float64
	bytes           int64
}

func (t topTask) measures() measures {
	m := measures{name: t.ID}
	if u := t.Usage; u != nil {
		m.milli, m.bytes, m.busy = render.OrZero(u.CPUMilli), render.OrZero(u.MemoryBytes), render.OrZero(render.Busy(u.Devices))
		m.io = render.OrZero(u.IOReadBytesPerSecond) + render.OrZero(u.IOWriteBytesPerSecond)
	}
	return m
}

func (n topNode) measures() measures {
	m := measures{
		name: n.Name, milli: render.OrZero(n.sum.CPUMilli), bytes: render.OrZero(n.sum.MemoryBytes),
		io: render.OrZero(n.sum.IOReadBytesPerSecond) + render.OrZero(n.sum.IOWriteBytesPerSecond),
	}
	if n.Usage != nil {
		m.busy = render.OrZero(render.Busy(n.Usage.Devices))
	}
	return m
}

// compare puts the largest first, and equal ones by processor time and memory.
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

// roughly rounds a value, so that rows do not change places all the time.
func roughly(milli float64) int { return int(milli/50 + 0.5) }
