package order

import (
	"fmt"
	"math"

	"github.com/escher-sched/escher/types"
)

// fitting is what is free on the nodes of a workload, and which tasks fit there. Amounts of a resource are
// one number on a node: its devices have no identity.
type fitting struct {
	names []string
	// total is what the nodes have of each resource, and most the most that one has.
	total, most []float64
	// machines are the capacities, and free what is free of them, by resource.
	machines, free [][]types.Quantity
	shapes         [][]types.Quantity
	// of are the shapes of the tasks of each job.
	of [][]int
	// bound is how many tasks of a shape there is room for at most, since a node got more free.
	bound []int
}

func newFitting(l load) *fitting {
	f := &fitting{}
	index := make(map[string]int)
	vector := func(r types.Requests) []types.Quantity {
		for _, x := range r {
			if _, ok := index[x.Name]; !ok {
				index[x.Name] = len(f.names)
				f.names = append(f.names, x.Name)
			}
		}
		v := make([]types.Quantity, len(f.names))
		for _, x := range r {
			v[index[x.Name]] = x.Amount
		}
		return v
	}
	known := make(map[string]int)
	for _, j := range l.jobs {
		var shapes []int
		for _, r := range j.tasks() {
			key := fmt.Sprint(r)
			i, ok := known[key]
			if !ok {
				i = len(f.shapes)
				known[key] = i
				f.shapes = append(f.shapes, vector(r))
			}
			shapes = append(shapes, i)
		}
		f.of = append(f.of, shapes)
	}
	for i := range l.nodes {
		f.machines = append(f.machines, vector(l.capacity(i)))
	}
	f.finish()
	f.clear()
	return f
}

// finish makes all vectors equally long, and the sums.
func (f *fitting) finish() {
	n := len(f.names)
	f.total, f.most = make([]float64, n), make([]float64, n)
	for i, m := range f.machines {
		f.machines[i] = append(m, make([]types.Quantity, n-len(m))...)
		for r, q := range f.machines[i] {
			f.total[r] += float64(q)
			f.most[r] = max(f.most[r], float64(q))
		}
	}
	for i, s := range f.shapes {
		f.shapes[i] = append(s, make([]types.Quantity, n-len(s))...)
	}
}

// clear makes all nodes free.
func (f *fitting) clear() {
	if f.free == nil {
		f.free, f.bound = make([][]types.Quantity, len(f.machines)), make([]int, len(f.shapes))
	}
	for i, m := range f.machines {
		f.free[i] = append(f.free[i][:0], m...)
	}
	f.freed()
}

// take takes room for all tasks of a job, on the fullest nodes, and returns these; nil if there is not
// room for all.
func (f *fitting) take(job int) []int {
	shapes := f.of[job]
	equal := 1 // of the first tasks: beside those of another shape, a failure says nothing of other jobs
	for equal < len(shapes) && shapes[equal] == shapes[0] {
		equal++
	}
	if equal > f.bound[shapes[0]] {
		return nil
	}
	nodes := make([]int, 0, len(shapes))
	for i, s := range shapes {
		best := f.fullest(s)
		if best < 0 {
			if i < equal {
				f.bound[s] = i
			}
			f.put(job, nodes)
			return nil
		}
		for r, q := range f.shapes[s] {
			f.free[best][r] -= q
		}
		nodes = append(nodes, best)
	}
	return nodes
}

// fullest returns the node with the least left for others on which a task fits; -1 if there is none.
func (f *fitting) fullest(shape int) int {
	best, least := -1, 0.0
	need := f.shapes[shape]
next:
	for n, free := range f.free {
		left := 0.0
		for r, q := range need {
			if q > free[r] {
				continue next
			}
			if q > 0 {
				left += float64(free[r]) / f.most[r]
			}
		}
		if best < 0 || left < least {
			best, least = n, left
		}
	}
	return best
}

// put gives the room of the first tasks of a job back.
func (f *fitting) put(job int, nodes []int) {
	for i, n := range nodes {
		for r, q := range f.shapes[f.of[job][i]] {
			f.free[n][r] += q
		}
	}
}

// retake takes the nodes of a job again, unless another job has part of them.
func (f *fitting) retake(job int, nodes []int) bool {
	for i, n := range nodes {
		for r, q := range f.shapes[f.of[job][i]] {
			if f.free[n][r] -= q; f.free[n][r] < 0 && q > 0 {
				for r, q := range f.shapes[f.of[job][i]][:r+1] {
					f.free[n][r] += q
				}
				f.put(job, nodes[:i])
				return false
			}
		}
	}
	return true
}

// freed forgets what did not fit.
func (f *fitting) freed() {
	for s := range f.bound {
		f.bound[s] = math.MaxInt
	}
}

// fitsEmpty reports whether a job fits on the empty nodes.
func (f *fitting) fitsEmpty(job int) bool {
	nodes := f.take(job)
	f.put(job, nodes)
	f.freed()
	return nodes != nil
}

// width is how much a job asks for, of the resource of which it asks for the most: 1 is all that the
// largest node has.
func (f *fitting) width(job int) (most float64) {
	for r := range f.names {
		sum := 0.0
		for _, s := range f.of[job] {
			sum += float64(f.shapes[s][r])
		}
		if f.most[r] > 0 {
			most = max(most, sum/f.most[r])
		}
	}
	return most
}

// spanFor returns the time within which the jobs must arrive to ask for a share of the nodes, of the
// resource that is asked for most.
func (f *fitting) spanFor(l load, share float64) (span float64) {
	for _, used := range f.used(func(i int) float64 { return l.jobs[i].Runs }) {
		span = max(span, used/share)
	}
	return span
}

// used returns which part of all nodes the jobs use of each resource, for the time of each, summed up.
func (f *fitting) used(seconds func(job int) float64) []float64 {
	all := make([]float64, len(f.names))
	for i, shapes := range f.of {
		d := seconds(i)
		for _, s := range shapes {
			for r, q := range f.shapes[s] {
				if q > 0 && f.total[r] > 0 {
					all[r] += d * float64(q) / f.total[r]
				}
			}
		}
	}
	return all
}
