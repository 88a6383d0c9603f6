package types

import (
	"github.com/escher-sched/escher/types/wire"
)

// History is what the past runs of a job of one name took: how long they ran, and what they used. A run
// counts half as much after a week, as in Borg's autopilot (Rzadca et al., "Autopilot: workload
// autoscaling at Google", EuroSys 2020).
type History struct {
	Extra
	// Runs is the number of runs ever counted whose memory is known.
	Runs int64
	// Last is the end of the latest run, and At the time that the weights are as of, in Unix nanoseconds.
	Last, At int64
	// Through is the revision up to which ended runs are counted.
	Through int64
	// Length is in milliseconds, CPU in thousandths of a processor, as the mean of a run, and Memory in
	// bytes, as the peak of a run.
	Length, CPU, Memory Histogram
}

func (h *History) fields(w *wire.Pass) {
	wire.Integer(w, 2, &h.Runs)
	wire.Integer(w, 3, &h.At)
	wire.Integer(w, 4, &h.Through)
	wire.List(w, 5, (*[]Bucket)(&h.Length), (*Bucket).fields)
	wire.List(w, 6, (*[]Bucket)(&h.CPU), (*Bucket).fields)
	wire.List(w, 7, (*[]Bucket)(&h.Memory), (*Bucket).fields)
	wire.Integer(w, 8, &h.Last)
}

// Histogram is a distribution of positive amounts. Its buckets are sorted by index. A bucket holds the
// amounts from one bound, not included, to the next, included; each bound is 9 % above the one before.
type Histogram []Bucket

// Bucket is the weight of one range of amounts.
type Bucket struct {
	// Index numbers the ranges: eight for each doubling, from 1 on.
	Index int
	// Weight is in millionths of a run.
	Weight int64
}

func (b *Bucket) fields(w *wire.Pass) {
	wire.Integer(w, 2, &b.Index)
	wire.Integer(w, 3, &b.Weight)
}

// The weight of a run, and the number of ranges for each doubling.
const (
	WholeRun   = 1_000_000
	PerDouble  = 8
	maxBuckets = 53*PerDouble + 1
)

// Validate checks the history of a name.
func (h *History) Validate() error {
	var p problems
	within(&p, "runs", h.Runs, 0, int64(MaxQuantity))
	p.moments("last, at", h.Last, h.At)
	p.revisions("through", h.Through)
	h.Length.validate(&p, "length")
	h.CPU.validate(&p, "cpu")
	h.Memory.validate(&p, "memory")
	return p.err()
}

func (h Histogram) validate(p *problems, field string) {
	within(p, field+": buckets", len(h), 0, maxBuckets)
	before := -1
	for _, b := range h {
		within(p, field+": index", b.Index, before+1, maxBuckets-1)
		within(p, field+": weight", b.Weight, 1, int64(MaxQuantity))
		before = b.Index
	}
}
