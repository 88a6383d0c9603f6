package types

import (
	"math"
	"slices"
	"time"
)

// History is what the past runs of a job of one name took: how long they ran, and what they used. A run
// counts half as much after each HalfLife, as in Borg's autopilot (Rzadca et al., "Autopilot: workload
// autoscaling at Google", EuroSys 2020).
type History struct {
	Extra
	// Runs is the number of runs ever counted.
	Runs int64
	// Last is the end of the latest run, and At the time that the weights are as of, in Unix nanoseconds.
	Last, At int64
	// Through is the revision up to which ended runs are counted.
	Through int64
	// Length is in milliseconds, CPU in thousandths of a processor, as the mean of a run, and Memory in
	// bytes, as the peak of a run.
	Length, CPU, Memory Histogram
}

func (h *History) fields(w *wire) {
	integer(w, 2, &h.Runs)
	integer(w, 3, &h.At)
	integer(w, 4, &h.Through)
	list(w, 5, (*[]Bucket)(&h.Length), (*Bucket).fields)
	list(w, 6, (*[]Bucket)(&h.CPU), (*Bucket).fields)
	list(w, 7, (*[]Bucket)(&h.Memory), (*Bucket).fields)
	integer(w, 8, &h.Last)
}

// HistoryLabel is the label of a task that names its history.
const HistoryLabel = "history"

// HistoryName returns the name of the history of a task: the value of its label, else the name of its job,
// else, of a task without a job, its own. Empty means none.
func HistoryName(t *Task, job string) string {
	for _, l := range t.Labels {
		if l.Name == HistoryLabel && isName(l.Value) {
			return l.Value
		}
	}
	if t.Job == "" {
		return t.Name
	}
	return job
}

// HalfLife is the time after which a run counts half in a history.
const HalfLife = 7 * 24 * time.Hour

// Run is a run that has ended.
type Run struct {
	// Ended is in Unix nanoseconds.
	Ended int64
	// Length is 0 if the run says nothing about the length: it did not succeed.
	Length time.Duration
	// Used is what it used, zero where that is not known.
	Used Used
}

// oomGrowth is what a run that ended out of memory would have used, in parts of what it had: as of the
// Vertical Pod Autoscaler of Kubernetes.
const oomGrowth = 1.2

// RunOf returns the run that a status tells of; ok is false if it tells of none. An attempt that ended
// out of memory needed more than it had, and says no more. Others that did not succeed say nothing.
func RunOf(s *Status) (r Run, ok bool) {
	if s.Started <= 0 || s.Ended < s.Started {
		return r, false
	}
	r = Run{Ended: s.Ended, Used: s.Used}
	switch {
	case s.Phase == Succeeded:
		r.Length = max(time.Millisecond, time.Duration(s.Ended-s.Started))
		return r, true
	case s.Cause == CauseMemory && s.Used.Memory > 0:
		r.Used = Used{Memory: min(Quantity(oomGrowth*float64(s.Used.Memory)), MaxQuantity)}
		return r, true
	}
	return r, false
}

// Add counts runs. Through is the revision up to which runs are counted then.
func (h *History) Add(runs []Run, through int64) {
	for _, r := range runs {
		h.Last = max(h.Last, r.Ended)
	}
	h.age()
	for _, r := range runs {
		weight := int64(wholeRun * decay(h.At-r.Ended))
		h.Length.add(Quantity(r.Length.Milliseconds()), weight)
		h.CPU.add(r.Used.CPU, weight)
		h.Memory.add(r.Used.Memory, weight)
		h.Runs = min(h.Runs+1, int64(MaxQuantity))
	}
	h.Through = max(h.Through, through)
}

// ageEvery is the least time by which weights are aged: each time, their fractions are lost.
const ageEvery = HalfLife / 64

// age lets the weights be as of the latest run, or of shortly before.
func (h *History) age() {
	over := h.Last - h.At
	if over < int64(ageEvery) {
		return
	}
	part := decay(over)
	h.Length.scale(part)
	h.CPU.scale(part)
	h.Memory.scale(part)
	h.At = h.Last
}

// decay is the part of a weight that is left after a time.
func decay(nanos int64) float64 { return math.Exp2(-float64(max(0, nanos)) / float64(HalfLife)) }

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

func (b *Bucket) fields(w *wire) {
	integer(w, 2, &b.Index)
	integer(w, 3, &b.Weight)
}

const (
	wholeRun   = 1_000_000
	perDouble  = 8
	maxBuckets = 53*perDouble + 1
)

func (h *Histogram) add(amount Quantity, weight int64) {
	if amount <= 0 || weight <= 0 {
		return
	}
	index := int(math.Ceil(perDouble * math.Log2(float64(min(amount, MaxQuantity)))))
	at, found := slices.BinarySearchFunc(*h, index, func(b Bucket, i int) int { return b.Index - i })
	if !found {
		*h = slices.Insert(*h, at, Bucket{Index: index})
	}
	(*h)[at].Weight = min((*h)[at].Weight+weight, int64(MaxQuantity))
}

// scale multiplies all weights, and drops what does not count any more.
func (h *Histogram) scale(part float64) {
	for i := range *h {
		(*h)[i].Weight = int64(float64((*h)[i].Weight) * part)
	}
	*h = slices.DeleteFunc(*h, func(b Bucket) bool { return b.Weight == 0 })
}

// Weight is the weight of all runs, in runs.
func (h Histogram) Weight() float64 {
	var all float64
	for _, b := range h {
		all += float64(b.Weight)
	}
	return all / wholeRun
}

// Quantile returns an amount that a part of the runs, from 0 to 1, did not exceed: at most 9 % more than
// the smallest such amount. 0 without runs.
func (h Histogram) Quantile(part float64) Quantity {
	want, sum := part*h.Weight()*wholeRun, 0.0
	for i, b := range h {
		if sum += float64(b.Weight); sum >= want || i == len(h)-1 {
			return Quantity(math.Ceil(math.Exp2(float64(b.Index) / perDouble)))
		}
	}
	return 0
}

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
