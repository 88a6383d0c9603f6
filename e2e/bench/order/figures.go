package order

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/escher-sched/escher/e2e/bench/rig"
)

// span is when a job began for the first time, and when it ended, in seconds; End is 0 if it did not.
// Early is how long it ran before the last job arrived. Refused means that its policy has ended it, as its
// deadline could not be met.
type span struct {
	Begin, End, Early float64
	Refused           bool
}

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
	// urgentWait is the mean wait of jobs of a priority above 0, and late the share of jobs that end after
	// their deadline, or never.
	urgentWait = "urgent_mean_s"
	late       = "late_percent"
	// tenantWait and sizeWait are the beginnings of mean waits by tenant and by size.
	tenantWait = "tenant_"
	sizeWait   = "size_"
)

// sizes returns the classes of jobs: single tasks by the part of a node that they ask for, and gangs by
// their tasks.
func sizes() []string { return []string{"eighth", "half", "node", "gang_2", "gang_8", "gang_more"} }

// sizeOf returns the class of a job.
func sizeOf(tasks int, width float64) string {
	class := 0
	switch {
	case tasks > 8:
		class = 5
	case tasks > 2:
		class = 4
	case tasks == 2:
		class = 3
	case width > 0.5:
		class = 2
	case width > 0.125:
		class = 1
	}
	return sizes()[class]
}

// toldTenants is for how many tenants there are figures: those with the most jobs.
const toldTenants = 8

// figuresOf returns the figures of a run: means over the jobs that ended, and how many did not. The
// utilization is that until the last job arrives.
func figuresOf(l load, spans []span) rig.Figures {
	var waits, gang, one, complete, urgent []float64
	byTenant, bySize := make(map[string][]float64), make(map[string][]float64)
	var last, missing, missed float64
	fits, arrived := newFitting(l), l.jobs[len(l.jobs)-1].At
	for i, j := range l.jobs {
		s := spans[i]
		if s.Refused || s.End == 0 || j.Deadline > 0 && s.End > j.At+j.Deadline+slack {
			missed++
		}
		if s.End == 0 {
			if !s.Refused {
				missing++
			}
			continue
		}
		wait := math.Round(max(0, s.End-j.At-j.Runs)/slack) * slack
		waits, complete = append(waits, wait), append(complete, s.End-j.At)
		byTenant[j.Tenant] = append(byTenant[j.Tenant], wait)
		size := sizeOf(len(fits.of[i]), fits.width(i))
		bySize[size] = append(bySize[size], wait)
		if j.isGang() {
			gang = append(gang, wait)
		} else {
			one = append(one, wait)
		}
		if j.Priority > 0 {
			urgent = append(urgent, wait)
		}
		last = max(last, s.End)
	}
	slices.Sort(waits)
	out := rig.Figures{
		meanWait: rig.Mean(waits), medianWait: quantile(waits, 0.5), p99Wait: quantile(waits, 0.99), longestWait: quantile(waits, 1),
		gangWait: rig.Mean(gang), singleWait: rig.Mean(one), completion: rig.Mean(complete), makespan: last,
		urgentWait: rig.Mean(urgent), late: 100 * missed / float64(len(l.jobs)), notEnded: missing,
	}
	if arrived > 0 {
		out[utilization] = 100 * slices.Max(fits.used(func(i int) float64 { return spans[i].Early })) / arrived
	}
	for size, of := range bySize {
		out[sizeWait+size+"_s"] = rig.Mean(of)
	}
	for _, of := range byTenant {
		out[tenantMost] = max(out[tenantMost], rig.Mean(of))
	}
	for _, name := range largestTenants(byTenant) {
		out[tenantWait+name+"_s"] = rig.Mean(byTenant[name])
	}
	return out
}

// largestTenants returns the tenants with the most jobs.
func largestTenants(of map[string][]float64) []string {
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(of[b]), len(of[a])), cmp.Compare(a, b))
	})
	return names[:min(len(names), toldTenants)]
}

// summaryOf returns the figures of several draws: the longest wait and what has not ended are the most, the
// others means.
func summaryOf(draws []rig.Figures) rig.Figures {
	out, n := make(rig.Figures), make(map[string]float64) // not every draw has jobs of each size
	for _, f := range draws {
		for name, x := range f {
			if n[name]++; name == longestWait || name == notEnded {
				out[name] = max(out[name], x)
			} else {
				out[name] += (x - out[name]) / n[name]
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
