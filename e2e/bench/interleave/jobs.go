package interleave

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// perNode is how many devices a node has.
const perNode = 4

// phases are the names of the phases of an iteration, in order.
func phases() []string { return []string{"data", "compute", "communicate"} }

// job is a training.
type job struct {
	// At is when it is submitted.
	At time.Duration
	// Phases are the lengths of the phases of an iteration, and Iterations how many it does.
	Phases     [3]time.Duration
	Iterations int
}

// alone is how long the job runs on a device of its own.
func (j job) alone() time.Duration {
	return time.Duration(j.Iterations) * (j.Phases[0] + j.Phases[1] + j.Phases[2])
}

// declared is what the job says of its phases.
func (j job) declared() string {
	var parts []string
	for i, name := range phases() {
		parts = append(parts, fmt.Sprintf("%s=%s", name, j.Phases[i]))
	}
	return strings.Join(parts, ",")
}

// mix is how a workload is generated.
type mix struct {
	name string
	// load is how many devices the jobs would keep busy while they arrive, as a part of all; 0 means one
	// job in all.
	load float64
	// busiest is the most that one phase takes of an iteration; 0 means three quarters.
	busiest float64
}

// mixes are the workloads: more than the devices bear one after another; twice that; less than they
// bear; jobs that mostly compute; and one job alone.
func mixes() []mix {
	return []mix{
		{name: "busy", load: 1.2},
		{name: "full", load: 2.4},
		{name: "light", load: 0.5},
		{name: "compute", load: 1.2, busiest: 0.95},
		{name: "alone"},
	}
}

const (
	// median is the median time of a job alone, sigma that of its logarithm; shortest and longest bound
	// it.
	median, sigma     = 3 * time.Minute, 0.8
	shortest, longest = 30 * time.Second, 15 * time.Minute
)

// generate draws n jobs for a number of devices.
func (m mix) generate(devices, n int, seed uint64) []job {
	h := fnv.New64a()
	_, _ = h.Write([]byte(m.name)) // it returns no error
	rng := rand.New(rand.NewPCG(seed, h.Sum64()))
	if m.load == 0 {
		n = 1
	}
	jobs, work := make([]job, n), time.Duration(0)
	for i := range jobs {
		// An iteration takes a quarter of a second to a second; one phase is most of it.
		round := time.Duration(float64(time.Second) * math.Exp2(-2*rng.Float64()))
		most := 0.4 + (cmp.Or(m.busiest, 0.75)-0.4)*rng.Float64()
		busiest := rng.IntN(3)
		if m.busiest != 0 && rng.IntN(4) > 0 {
			busiest, most = 1, m.busiest
		}
		rest := rng.Float64()
		for k := range 2 {
			part := (1 - most) * (0.3 + 0.4*rest)
			if k == 1 {
				part = (1 - most) * (0.7 - 0.4*rest)
			}
			jobs[i].Phases[(busiest+1+k)%3] = time.Duration(float64(round) * part).Round(time.Millisecond)
		}
		jobs[i].Phases[busiest] = time.Duration(float64(round) * most).Round(time.Millisecond)
		long := min(max(time.Duration(float64(median)*math.Exp(sigma*rng.NormFloat64())), shortest), longest)
		jobs[i].Iterations = max(1, int(long/round))
		jobs[i].At = time.Duration(rng.Float64() * float64(time.Hour))
		work += jobs[i].alone()
	}
	slices.SortFunc(jobs, func(a, b job) int { return cmp.Compare(a.At, b.At) })
	if m.load == 0 {
		jobs[0].At = 0
		return jobs
	}
	span := float64(work) / (float64(devices) * m.load)
	for i := range jobs {
		jobs[i].At = time.Duration(float64(jobs[i].At) / float64(time.Hour) * span)
	}
	return jobs
}
