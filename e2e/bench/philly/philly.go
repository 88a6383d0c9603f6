package philly

import (
	"context"
	"slices"
	"time"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/workload"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/types"
)

// allNodes is the number of nodes of 8 devices for all jobs; a part of them runs a corresponding
// sample of the jobs. On 100 nodes, which offer as many device hours as the week's jobs request,
// hardly any job waits, because a few jobs run for weeks: the demand without contention exceeds 100
// nodes for less than one hour.
const allNodes = 60

// Scenarios returns the scenario about how long jobs wait.
func Scenarios() []rig.Scenario {
	return []rig.Scenario{
		{Name: "philly", About: "how long jobs wait, of the busiest week of the Philly trace: first in, first out; any job that fits; tenants by their shares; --speed for another one than 3600",
			Full: rig.Size{Nodes: allNodes, Tasks: 14_171, Rounds: 1}, Quick: rig.Size{Nodes: allNodes / 10, Tasks: 14_171, Rounds: 1}, Run: runPhilly},
	}
}

// usualSpeed is the speedup of the week: an hour takes a second.
const usualSpeed = 3600

// largeTaskAge is how long a large task waits, in workload time, before free capacity is kept for
// it.
const largeTaskAge = 3600

// queuePolicy is a queueing policy.
type queuePolicy struct {
	name string
	// shared is declared as lineID; of returns the policies of a job.
	shared esl.Shared
	of     func(workload.Training) []esl.Policy
	// ages reports whether capacity is also kept for tasks that have waited long.
	ages bool
}

// lineID is the id of the shared policy.
const lineID = "line"

// queuePolicies are first in, first out; whichever fits, the scheduler's default; and the tenants
// in turn.
func queuePolicies() []queuePolicy {
	return []queuePolicy{
		{name: "philly-fifo", shared: inOrder{}, of: func(workload.Training) []esl.Policy { return []esl.Policy{esl.Use{Name: lineID}} }},
		{name: "philly-backfill", ages: true, of: func(workload.Training) []esl.Policy { return nil }},
		{name: "philly-fair", ages: true, shared: share.FairShare{Anyone: 1, Over: []string{string(types.GPU)}},
			of: func(t workload.Training) []esl.Policy { return []esl.Policy{esl.Use{Name: lineID, As: t.Tenant}} }},
	}
}

// runPhilly runs the week with each of the policies.
func runPhilly(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	jobs, err := workload.Philly()
	if err != nil {
		return nil, err
	}
	jobs = everyOther(jobs, max(1, allNodes/cfg.Nodes))
	cfg.Tasks, cfg.Ops = min(cfg.Tasks, len(jobs)), max(cfg.Ops, rig.OwnOps)
	jobs = jobs[:cfg.Tasks]
	if cfg.Speed == 0 {
		cfg.Speed = usualSpeed
		if cfg.Quick {
			cfg.Speed *= 10
		}
	}
	var arms []rig.Arm
	for _, p := range queuePolicies() {
		arms = append(arms, rig.Arm{Name: p.name, Measure: func(ctx context.Context, cfg rig.Config) (rig.Figures, error) {
			return rig.OnCluster(ctx, cfg, func(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
				return runOnce(ctx, c, found, jobs, p)
			})
		}})
	}
	s, err := rig.Interleave(ctx, cfg, arms...)
	if err != nil {
		return nil, err
	}
	var rows []rig.Row
	for _, a := range arms {
		row := rig.NewRow(cfg, a.Name, "s", s.Of(a.Name, meanDelay)).Over("philly-fifo", s.Of(a.Name, meanDelay), s.Of("philly-fifo", meanDelay)).
			AddDetails(s, a.Name, meanDelay).AddViolations(s.Violations(a.Name))
		rows = append(rows, *row.Require(0, rig.Target{Figure: partialGangs, AtMost: true, Must: 0, Unit: " partial"}, rig.Target{Figure: notBegun, AtMost: true, Must: 0, Unit: " not begun"}))
	}
	return rows, nil
}

// everyOther returns one of every n jobs.
func everyOther(jobs []workload.Training, n int) []workload.Training {
	var out []workload.Training
	for i := 0; i < len(jobs); i += n {
		out = append(out, jobs[i])
	}
	return out
}

// Names of figures: times are workload times, in seconds.
const (
	meanDelay = "mean_s"
	// partialGangs is how many gangs had a task bound before all of the gang was locked.
	partialGangs = "gangs_partial"
	notBegun     = "not_begun"
)

// tellDelays adds the waiting times of jobs, for a week that began at a time.
func tellDelays(cfg rig.Config, found rig.Figures, jobs []workload.Training, all []begun, began time.Time) {
	var delays []float64
	byTenant := make(map[string][]float64)
	var gangs, partial, apart, waiting, gangDelay, used float64
	for i, j := range jobs {
		b := &all[i]
		n := len(j.Tasks())
		if n > 1 {
			gangs++
		}
		if b.partial || n > 1 && b.tasks > 0 && b.tasks < n {
			partial++
		}
		if b.apart {
			apart++
		}
		if b.tasks < n {
			waiting++
			continue
		}
		at := b.at.Sub(began).Seconds() * cfg.Speed
		delay := max(0, at-j.Submit)
		delays, byTenant[j.Tenant] = append(delays, delay), append(byTenant[j.Tenant], delay)
		if n > 1 {
			gangDelay += delay
		}
		used += float64(j.GPUs) * max(0, min(at+j.Runs, workload.PhillyWeek)-at)
	}
	slices.Sort(delays)
	var tenants []float64
	for _, of := range byTenant {
		tenants = append(tenants, rig.Mean(of))
	}
	slices.Sort(tenants)
	found[meanDelay], found["median_s"], found["p90_s"], found["p99_s"] = rig.Mean(delays), at(delays, 0.5), at(delays, 0.9), at(delays, 0.99)
	found["gangs_apart"] = apart
	found["gangs"], found[partialGangs], found[notBegun] = gangs, partial, waiting
	found["gangs_mean_s"] = gangDelay / max(1, gangs)
	found["tenants_mean_s"], found["tenants_median_s"], found["tenants_most_s"] = rig.Mean(tenants), at(tenants, 0.5), at(tenants, 1)
	found["used_percent"] = 100 * used / (float64(cfg.Nodes) * 8 * workload.PhillyWeek)
	found["speed"] = cfg.Speed
}

// at returns a quantile of sorted values; 0 if there are none.
func at(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}
