package bench

import (
	"context"
	"slices"
	"time"

	"github.com/escher-sched/escher/e2e/bench/workload"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/types"
)

// The experiment on queueing replays the busiest week of Microsoft's Philly cluster at a multiple
// of its speed. Jobs larger than a node are gangs; 11 tenants submit them. It compares how long
// jobs wait under each queueing policy.

// phillyNodes is the number of nodes of 8 devices for all jobs; a part of them runs a corresponding
// sample of the jobs. On 100 nodes, which offer as many device hours as the week's jobs request,
// hardly any job waits, because a few jobs run for weeks: the demand without contention exceeds 100
// nodes for less than one hour.
const phillyNodes = 60

// phillySpeed is the speedup of the week: an hour takes a second.
const phillySpeed = 3600

// phillyAge is how long a large task waits, in workload time, before free capacity is kept for it.
const phillyAge = 3600

// phillyPolicy is a queueing policy.
type phillyPolicy struct {
	name string
	// shared is declared as phillyLine; of returns the policies of a job.
	shared esl.Shared
	of     func(workload.Training) []esl.Policy
	// ages reports whether capacity is also kept for tasks that have waited long.
	ages bool
}

// phillyLine is the id of the shared policy.
const phillyLine = "line"

// phillyPolicies are first in, first out; whichever fits, the scheduler's default; and the tenants
// in turn.
func phillyPolicies() []phillyPolicy {
	return []phillyPolicy{
		{name: "philly-fifo", shared: inOrder{}, of: func(workload.Training) []esl.Policy { return []esl.Policy{esl.Use{Name: phillyLine}} }},
		{name: "philly-backfill", ages: true, of: func(workload.Training) []esl.Policy { return nil }},
		{name: "philly-fair", ages: true, shared: share.FairShare{Anyone: 1, Over: []string{string(types.GPU)}},
			of: func(t workload.Training) []esl.Policy { return []esl.Policy{esl.Use{Name: phillyLine, As: t.Tenant}} }},
	}
}

// runPhilly runs the week with each of the policies.
func runPhilly(ctx context.Context, cfg Config) ([]Row, error) {
	jobs, err := workload.Philly()
	if err != nil {
		return nil, err
	}
	jobs = everyOther(jobs, max(1, phillyNodes/cfg.Nodes))
	cfg.Tasks, cfg.Ops = min(cfg.Tasks, len(jobs)), max(cfg.Ops, ownOps)
	jobs = jobs[:cfg.Tasks]
	if cfg.Speed == 0 {
		cfg.Speed = phillySpeed
		if cfg.Quick {
			cfg.Speed *= 10
		}
	}
	var arms []arm
	for _, p := range phillyPolicies() {
		arms = append(arms, arm{p.name, func(ctx context.Context, cfg Config) (figures, error) {
			return onCluster(ctx, cfg, func(ctx context.Context, c *cluster, found figures) error { return c.philly(ctx, found, jobs, p) })
		}})
	}
	s, err := interleave(ctx, cfg, arms...)
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, a := range arms {
		row := newRow(cfg, a.name, "s", s.of(a.name, phillyMean)).over("philly-fifo", s.of(a.name, phillyMean), s.of("philly-fifo", phillyMean)).
			details(s, a.name, phillyMean).found(s.violations(a.name))
		rows = append(rows, *row.require(0, target{figure: phillyPartial, atMost: true, must: 0, unit: " partial"}, target{figure: phillyWaiting, atMost: true, must: 0, unit: " not begun"}))
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
	phillyMean = "mean_s"
	// phillyPartial is how many gangs had a task bound before all of the gang was locked.
	phillyPartial = "gangs_partial"
	phillyWaiting = "not_begun"
)

// tellPhilly adds the waiting times of jobs, for a week that began at a time.
func tellPhilly(cfg Config, found figures, jobs []workload.Training, all []begun, began time.Time) {
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
		tenants = append(tenants, mean(of))
	}
	slices.Sort(tenants)
	found[phillyMean], found["median_s"], found["p90_s"], found["p99_s"] = mean(delays), at(delays, 0.5), at(delays, 0.9), at(delays, 0.99)
	found["gangs_apart"] = apart
	found["gangs"], found[phillyPartial], found[phillyWaiting] = gangs, partial, waiting
	found["gangs_mean_s"] = gangDelay / max(1, gangs)
	found["tenants_mean_s"], found["tenants_median_s"], found["tenants_most_s"] = mean(tenants), at(tenants, 0.5), at(tenants, 1)
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
