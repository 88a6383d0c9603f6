// Package history counts past runs: how long they took, and what they used. It is pure.
package history

import (
	"math"
	"slices"
	"time"

	"github.com/escher-sched/escher/types"
)

// Label is the label of a task that names its history.
const Label = "history"

// Name returns the name of the history of a task: the value of its label, else the name of its job,
// else, of a task without a job, its own. Empty means none.
func Name(t *types.Task, job string) string {
	for _, l := range t.Labels {
		if l.Name == Label && types.IsName(l.Value) {
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
	Used types.Used
}

// oomGrowth is what a run that ended out of memory would have used, in parts of what it had: as of the
// Vertical Pod Autoscaler of Kubernetes.
const oomGrowth = 1.2

// RunOf returns the run that a status tells of; ok is false if it tells of none. An attempt that ended
// out of memory needed more than it had, and says no more. Others that did not succeed say nothing.
func RunOf(s *types.Status) (r Run, ok bool) {
	if s.Started <= 0 || s.Ended < s.Started {
		return r, false
	}
	r = Run{Ended: s.Ended, Used: s.Used}
	switch {
	case s.Phase == types.Succeeded:
		r.Length = max(time.Millisecond, time.Duration(s.Ended-s.Started))
		return r, true
	case s.Cause == types.CauseMemory && s.Used.Memory > 0:
		r.Used = types.Used{Memory: min(types.Quantity(oomGrowth*float64(s.Used.Memory)), types.MaxQuantity)}
		return r, true
	}
	return r, false
}

// Used returns what a process used that had so much processor time over its life, and that peak of
// memory in bytes.
func Used(cpu, over time.Duration, memory int64) types.Used {
	u := types.Used{Memory: max(0, min(types.Quantity(memory), types.MaxQuantity))}
	if cpu > 0 && over > 0 {
		// At least one: it has used some.
		u.CPU = max(1, min(types.Quantity(1000*cpu.Seconds()/over.Seconds()), types.MaxQuantity))
	}
	return u
}

// Add counts runs. Through is the revision up to which runs are counted then.
func Add(h *types.History, runs []Run, through int64) {
	for _, r := range runs {
		h.Last = max(h.Last, r.Ended)
	}
	age(h)
	for _, r := range runs {
		weight := int64(types.WholeRun * decay(h.At-r.Ended))
		add(&h.Length, types.Quantity(r.Length.Milliseconds()), weight)
		add(&h.CPU, r.Used.CPU, weight)
		add(&h.Memory, r.Used.Memory, weight)
		if r.Used.Memory > 0 {
			h.Runs = min(h.Runs+1, int64(types.MaxQuantity))
		}
	}
	h.Through = max(h.Through, through)
}

// ageEvery is the least time by which weights are aged: each time, their fractions are lost.
const ageEvery = HalfLife / 64

// age lets the weights be as of the latest run, or of shortly before.
func age(h *types.History) {
	over := h.Last - h.At
	if over < int64(ageEvery) {
		return
	}
	part := decay(over)
	scale(&h.Length, part)
	scale(&h.CPU, part)
	scale(&h.Memory, part)
	h.At = h.Last
}

// decay is the part of a weight that is left after a time.
func decay(nanos int64) float64 { return math.Exp2(-float64(max(0, nanos)) / float64(HalfLife)) }

func add(h *types.Histogram, amount types.Quantity, weight int64) {
	if amount <= 0 || weight <= 0 {
		return
	}
	index := int(math.Ceil(types.PerDouble * math.Log2(float64(min(amount, types.MaxQuantity)))))
	at, found := slices.BinarySearchFunc(*h, index, func(b types.Bucket, i int) int { return b.Index - i })
	if !found {
		*h = slices.Insert(*h, at, types.Bucket{Index: index})
	}
	(*h)[at].Weight = min((*h)[at].Weight+weight, int64(types.MaxQuantity))
}

// scale multiplies all weights, and drops what does not count any more.
func scale(h *types.Histogram, part float64) {
	for i := range *h {
		(*h)[i].Weight = int64(float64((*h)[i].Weight) * part)
	}
	*h = slices.DeleteFunc(*h, func(b types.Bucket) bool { return b.Weight == 0 })
}

// Weight is the weight of all runs, in runs.
func Weight(h types.Histogram) float64 {
	var all float64
	for _, b := range h {
		all += float64(b.Weight)
	}
	return all / types.WholeRun
}

// Quantile returns an amount that a part of the runs, from 0 to 1, did not exceed: at most 9 % more than
// the smallest such amount. 0 without runs.
func Quantile(h types.Histogram, part float64) types.Quantity {
	var all, sum float64
	for _, b := range h {
		all += float64(b.Weight)
	}
	for i, b := range h {
		if sum += float64(b.Weight); sum >= part*all || i == len(h)-1 {
			return types.Quantity(math.Ceil(math.Exp2(float64(b.Index) / types.PerDouble)))
		}
	}
	return 0
}
