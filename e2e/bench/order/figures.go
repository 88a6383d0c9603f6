package order

import (
	"math"
	"slices"

	"github.com/escher-sched/escher/e2e/bench/rig"
)

// span is when a job began for the first time, and when it ended, in seconds; End is 0 if it did not.
// Early is how long it ran before the last job arrived.
type span struct{ Begin, End, Early float64 }

// Names of figures. Times are those of the workload, in seconds. A job waits while it does not run,
// also between two runs.
const (
	meanWait    = "mean_s"
	medianWait  = "median_s"
	p99Wait     = "p99_s"
	longestWait = "longest_s"
	gangWait    = "gangs_mean_s"
	singleWait  = "single_mean_s"
	completion  = "completion_s"
	makespan    = "makespan_s"
	utilization = "utilization_percent"
	tenantMost  = "tenants_most_s"
	notEnded    = "not_ended"
)

// figuresOf returns the figures of a run: means over the jobs that ended, and how many did not. The
// utilization is that until the last job arrives.
func figuresOf(l load, spans []span) rig.Figures {
	var waits, gang, one, complete []float64
	byTenant := make(map[string][]float64)
	var last, work, missing float64
	arrived := l.jobs[len(l.jobs)-1].At
	for i, j := range l.jobs {
		s := spans[i]
		if s.End == 0 {
			missing++
			continue
		}
		wait := math.Round(max(0, s.End-j.At-j.Runs)/slack) * slack
		waits, complete = append(waits, wait), append(complete, s.End-j.At)
		byTenant[j.Tenant] = append(byTenant[j.Tenant], wait)
		if len(j.tasks()) > 1 {
			gang = append(gang, wait)
		} else {
			one = append(one, wait)
		}
		last = max(last, s.End)
		work += float64(j.GPUs) * s.Early
	}
	slices.Sort(waits)
	most := 0.0
	for _, of := range byTenant {
		most = max(most, rig.Mean(of))
	}
	return rig.Figures{
		meanWait: rig.Mean(waits), medianWait: quantile(waits, 0.5), p99Wait: quantile(waits, 0.99), longestWait: quantile(waits, 1),
		gangWait: rig.Mean(gang), singleWait: rig.Mean(one), completion: rig.Mean(complete), makespan: last,
		utilization: 100 * work / (float64(l.nodes*devices) * arrived), tenantMost: most, notEnded: missing,
	}
}

// summaryOf returns the figures of several draws: the longest wait and what has not ended are the most, the
// others means.
func summaryOf(draws []rig.Figures) rig.Figures {
	out := make(rig.Figures)
	for _, f := range draws {
		for name, x := range f {
			if name == longestWait || name == notEnded {
				out[name] = max(out[name], x)
			} else {
				out[name] += x / float64(len(draws))
			}
		}
	}
	return out
}

// quantile returns a quantile of sorted values; 0 if there are none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}
