package order

import (
	"cmp"
	"strings"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/workload"
	"github.com/escher-sched/escher/types"
)

// file is a workload that a file or a directory describes, and how it is replayed.
type file struct {
	// Path is a table of jobs, or a directory with a trace.
	Path string
	// Has is the capacity of each node, as text such as gpu=8,cpu=64; empty means that of the trace, or
	// usualNode.
	Has string
	// Load is how much of the nodes the jobs ask for while they arrive: their arrivals are moved. 0 leaves
	// them as they are.
	Load float64
}

const (
	// usualNode is what each node of a table of jobs has, unless it is said.
	usualNode = "gpu=8,cpu=64,memory=512Gi"
	// usualNodes is how many there are, unless it is said.
	usualNodes = 8
	// maxNodes bounds the nodes.
	maxNodes = 10_000
	// maxLoad and minLoad bound the load.
	maxLoad, minLoad = 100, 0.01
)

// fileOf returns the file of a configuration. Invalid: its options contradict each other.
func fileOf(cfg rig.Config) (file, error) {
	f := file{cfg.Workload, cfg.NodeHas, cfg.Load}
	switch {
	case f.Path == "" && (f.Has != "" || f.Load != 0):
		return f, types.Errorf(types.Invalid, "node-has %q, load %g: they are about the jobs of a file: give --workload, too", f.Has, f.Load)
	case f.Load != 0 && !(f.Load >= minLoad && f.Load <= maxLoad):
		return f, types.Errorf(types.Invalid, "load: %g is not from %g to %d: 1 asks for all of the nodes; leave it out to keep the arrivals", f.Load, minLoad, maxLoad)
	}
	return f, nil
}

// read returns the workload, of at most n jobs, for so many nodes: 0 means those of the trace. It leaves
// out jobs that would not fit on the empty nodes, and returns how many of either.
func (f file) read(nodes, n int) (l load, unfit, left int, err error) {
	all, machines, left, err := workload.ReadJobs(f.Path, n)
	if err != nil {
		return l, 0, 0, err
	}
	if machines, err = f.machines(machines, nodes); err != nil {
		return l, 0, 0, err
	}
	l = load{name: "workload", nodes: len(machines), machines: machines}
	for _, x := range all {
		l.jobs = append(l.jobs, job{At: x.At, Runs: x.Runs, Of: x.Tasks, Tenant: x.Tenant, Limit: x.Limit, Deadline: x.Deadline, Priority: x.Priority})
	}
	fits := newFitting(l)
	kept := l.jobs[:0]
	for i, j := range l.jobs {
		if fits.fitsEmpty(i) {
			kept = append(kept, j)
		}
	}
	unfit = len(l.jobs) - len(kept)
	if l.jobs = kept; len(kept) < leastJobs {
		return l, unfit, left, types.Errorf(types.Invalid, "workload: %s: %d of its jobs fit on the %d nodes: give at least %d, or larger nodes by --nodes and --node-has", f.Path, len(kept), l.nodes, leastJobs)
	}
	span := l.jobs[len(l.jobs)-1].At - l.jobs[0].At
	if f.Load > 0 {
		span = newFitting(l).spanFor(l, f.Load)
	}
	closer(l.jobs, span)
	for i := range l.jobs {
		// A job that has no deadline gets one, for the policies that need it.
		if j := &l.jobs[i]; j.Deadline == 0 {
			j.Deadline = deadlineOf(i, *j)
		}
	}
	return l, unfit, left, nil
}

// machines returns the capacities of the nodes.
func (f file) machines(of []types.Requests, nodes int) ([]types.Requests, error) {
	switch {
	case nodes > maxNodes || len(of) > maxNodes && nodes == 0:
		return nil, types.Errorf(types.Invalid, "nodes: %d is more than %d: give --nodes", max(nodes, len(of)), maxNodes)
	case f.Has == "" && of != nil && nodes > len(of):
		return nil, types.Errorf(types.Invalid, "nodes: the trace has %d, and %d are asked for: give at most %d, or say by --node-has what each node has", len(of), nodes, len(of))
	case f.Has == "" && of != nil && nodes > 0:
		some := make([]types.Requests, nodes) // of all kinds, as they mostly follow one another
		for i := range some {
			some[i] = of[i*len(of)/nodes]
		}
		return some, nil
	case f.Has == "" && of != nil:
		return of, nil
	}
	has, err := capacityOf(cmp.Or(f.Has, usualNode))
	if err != nil {
		return nil, err
	}
	all := make([]types.Requests, cmp.Or(nodes, usualNodes))
	for i := range all {
		all[i] = has
	}
	return all, nil
}

// capacityOf reads a capacity such as gpu=8,cpu=64,memory=256Gi.
func capacityOf(text string) (types.Requests, error) {
	all := make(map[string]types.Quantity)
	for _, part := range strings.Split(text, ",") {
		name, amount, ok := strings.Cut(part, "=")
		switch types.ResourceID(name) {
		case types.CPU, types.Memory, types.GPU:
		default:
			ok = false
		}
		if _, twice := all[name]; !ok || twice || len(all) > 3 {
			return nil, types.Errorf(types.Invalid, "node-has: %.60q is not an amount of cpu, memory or gpu, once each: write gpu=8,cpu=64,memory=256Gi", part)
		}
		q, err := types.ParseQuantity(name, amount)
		if err != nil {
			return nil, types.Errorf(types.Invalid, "node-has: %w", err)
		}
		if q == types.Inf {
			return nil, types.Errorf(types.Invalid, "node-has: %s: inf is no capacity of a node: give an amount", name)
		}
		all[name] = q
	}
	return types.NewRequests(all), nil
}
