package order

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/escher-sched/escher/e2e/bench/workload"
	"github.com/escher-sched/escher/types"
)

// devices is how many devices a node has.
const devices = 8

// job is a job of a workload; a gang if it has more than one task.
type job struct {
	// At is when it is submitted, and Runs how long it runs, in seconds.
	At, Runs float64
	// GPUs is how many devices it asks for in all: eight for each task, and the rest for the last.
	GPUs int
	// Tenant submits it.
	Tenant string
}

// tasks returns the devices of each task.
func (j job) tasks() []int { return workload.Training{GPUs: j.GPUs}.Tasks() }

// load is a workload, and how many nodes it is for.
type load struct {
	name  string
	nodes int
	jobs  []job
}

// mix is how a workload is generated.
type mix struct {
	name string
	// load is how much of the cluster the jobs ask for while they arrive: 1 is all of it.
	load float64
	// gangs is the share of jobs that are gangs of two nodes up to a quarter of the cluster.
	gangs float64
	// median is the median length in seconds, and sigma that of the logarithm of lengths.
	median, sigma float64
}

// Names of workloads.
const (
	philly = "philly"
	single = "single"
	gangs  = "gangs"
	heavy  = "heavy"
	light  = "light"
)

// mixes are the generated workloads: single tasks alone; some gangs, at a load that the cluster can just
// bear; more gangs, at a load that it cannot bear; and a light load.
func mixes() []mix {
	return []mix{
		{name: single, load: 1.05, gangs: 0, median: 900, sigma: 1.7},
		{name: gangs, load: 0.95, gangs: 0.15, median: 900, sigma: 1.7},
		{name: heavy, load: 1.3, gangs: 0.25, median: 900, sigma: 1.4},
		{name: light, load: 0.7, gangs: 0.15, median: 900, sigma: 1.7},
	}
}

// names are those of all workloads.
func names() []string {
	all := []string{philly}
	for _, m := range mixes() {
		all = append(all, m.name)
	}
	return all
}

const (
	// longest bounds lengths, in seconds: one job does not decide the makespan.
	longest = 12 * 3600
	// shortest is the least length.
	shortest = 10
	// tenants is the number of tenants of a generated workload; the first submits most.
	tenants = 6
	// phillyLoad is how much of the cluster the jobs of the trace ask for while they arrive.
	phillyLoad = 1.1
)

// workloadOf returns a workload of n jobs for some nodes. Invalid: there is none of that name.
func workloadOf(name string, nodes, n int, seed uint64) (load, error) {
	if name == philly {
		all, err := workload.Philly()
		return load{name: name, nodes: nodes, jobs: denser(all, nodes, n)}, err
	}
	for _, m := range mixes() {
		if m.name == name {
			return load{name: name, nodes: nodes, jobs: m.generate(nodes, n, seed)}, nil
		}
	}
	return load{}, types.Errorf(types.Invalid, "workload: %q is unknown: use one of %v", name, names())
}

// denser returns n jobs spread over the trace, the arrivals closer together: they ask for phillyLoad of
// the nodes. Jobs that are too large for half of the nodes are left out.
func denser(all []workload.Training, nodes, n int) []job {
	all = slices.DeleteFunc(slices.Clone(all), func(t workload.Training) bool { return t.GPUs > nodes*devices/2 || t.GPUs < 1 })
	var jobs []job
	for i := range min(n, len(all)) {
		t := all[i*len(all)/min(n, len(all))]
		jobs = append(jobs, job{At: t.Submit, Runs: min(max(t.Runs, shortest), longest), GPUs: t.GPUs, Tenant: t.Tenant})
	}
	if len(jobs) == 0 {
		return nil
	}
	first, last := jobs[0].At, jobs[len(jobs)-1].At
	faster := (last - first) / spanOf(jobs, nodes, phillyLoad)
	for i := range jobs {
		jobs[i].At = (jobs[i].At - first) / faster
	}
	return jobs
}

// spanOf returns the time within which jobs must arrive to ask for a share of the nodes.
func spanOf(jobs []job, nodes int, share float64) float64 {
	work := 0.0
	for _, j := range jobs {
		work += float64(j.GPUs) * j.Runs
	}
	return work / (float64(nodes*devices) * share)
}

// generate draws n jobs.
func (m mix) generate(nodes, n int, seed uint64) []job {
	h := fnv.New64a()
	_, _ = h.Write([]byte(m.name)) // it returns no error
	rng := rand.New(rand.NewPCG(seed, h.Sum64()))
	jobs := make([]job, n)
	for i := range jobs {
		j := job{GPUs: []int{1, 1, 1, 2, 4, 8}[rng.IntN(6)], Tenant: fmt.Sprintf("t%d", min(rng.IntN(tenants), rng.IntN(tenants)))}
		if rng.Float64() < m.gangs {
			most := max(2, nodes/4)
			j.GPUs = devices * min(most, 1<<(1+rng.IntN(max(1, int(math.Log2(float64(most)))))))
		}
		j.Runs = min(max(math.Exp(math.Log(m.median)+m.sigma*rng.NormFloat64()), shortest), longest)
		j.At = rng.Float64()
		jobs[i] = j
	}
	slices.SortFunc(jobs, func(a, b job) int { return cmp.Compare(a.At, b.At) })
	span := spanOf(jobs, nodes, m.load)
	for i := range jobs {
		jobs[i].At *= span
	}
	return jobs
}
