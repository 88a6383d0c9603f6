package order

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/escher-sched/escher/e2e/bench/rig"
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
	// Of are the requests of each task, of a job that asks for something else; nil means GPUs.
	Of []types.Requests
	// Tenant submits it, and Name is that of jobs that run about as long.
	Tenant, Name string
	// Limit is the limit of its run time, in seconds, for the policies that read lengths; 0 means that it
	// is not known.
	Limit float64
	// Deadline is within how many seconds it is to end, and Priority what it is submitted with, for the
	// policies that look at them.
	Deadline float64
	Priority int
}

// tasks returns the requests of each task.
func (j job) tasks() []types.Requests {
	if j.Of != nil {
		return j.Of
	}
	all := make([]types.Requests, 0, 1+j.GPUs/devices)
	for _, n := range (workload.Training{GPUs: j.GPUs}).Tasks() {
		all = append(all, ofDevices(n))
	}
	return all
}

// isGang reports whether the job has more than one task.
func (j job) isGang() bool { return len(j.Of) > 1 || j.Of == nil && j.GPUs > devices }

// ofDevices returns the requests, or the capacity, of so many devices.
func ofDevices(n int) types.Requests {
	return types.NewRequests(map[string]types.Quantity{string(types.GPU): types.Quantity(n) * rig.WholeDevice})
}

// load is a workload, and the nodes that it is for.
type load struct {
	name  string
	nodes int
	// machines are the capacities of the nodes; nil means eight devices each.
	machines []types.Requests
	jobs     []job
}

// capacity returns the capacity of a node.
func (l load) capacity(i int) types.Requests {
	if l.machines != nil {
		return l.machines[i]
	}
	return ofDevices(devices)
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
	if len(jobs) > 0 {
		closer(jobs, spanOf(jobs, nodes, phillyLoad))
	}
	complete(jobs)
	return jobs
}

// closer moves the arrivals of jobs: the first comes at 0, the last after span.
func closer(jobs []job, span float64) {
	first, last := jobs[0].At, jobs[len(jobs)-1].At
	for i := range jobs {
		if jobs[i].At -= first; last > first {
			jobs[i].At *= span / (last - first)
		}
	}
}

// complete gives jobs what neither the trace nor a generated workload says. Limits are a tenth above the
// lengths. Every tenth job is urgent, of priority 9. Deadlines leave half an hour to eight hours of
// waiting, as many jobs each.
//
// Jobs of one name run alike, though not as long: half of them differ by more than a factor of 1.4 from what
// is typical of the name.
func complete(jobs []job) {
	rng := rand.New(rand.NewPCG(7, uint64(len(jobs))))
	for i := range jobs {
		j := &jobs[i]
		j.Name = fmt.Sprintf("job-%.0f", math.Log2(max(j.Runs, 1))+nameSpread*rng.NormFloat64())
		j.Limit = 1.1*j.Runs + 1
		j.Deadline = deadlineOf(i, *j)
		if i%10 == 0 {
			j.Priority = 9
		}
	}
}

// nameSpread is how much the lengths of a name differ, as the standard deviation in doublings.
const nameSpread = 0.7

// deadlineOf returns within how many seconds job i is to end.
func deadlineOf(i int, j job) float64 { return max(j.Limit, j.Runs) + 1800*float64(int(1)<<(i%5)) }

// spanOf returns the time within which jobs must arrive to ask for a share of the devices of the nodes.
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
	complete(jobs)
	return jobs
}
