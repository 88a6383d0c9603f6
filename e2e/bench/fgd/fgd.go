package fgd

import (
	"context"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/workload"
	"github.com/escher-sched/escher/esl/place"
)

// firstSeed is the first of the seeds, as in the publication.
const firstSeed = 42

// Scenarios returns the scenario about how much of a cluster tasks can use.
func Scenarios() []rig.Scenario {
	return []rig.Scenario{
		{Name: "fgd", About: "how much of all GPU the tasks of the openb trace can have, which share devices: by place.Objective, and by its rivals; a round is a seed",
			Full: rig.Size{Nodes: 1213, Tasks: 1, Rounds: 10}, Quick: rig.Size{Nodes: 120, Tasks: 1, Rounds: 3}, Run: runFGD},
	}
}

// mustAllocate is how much of all GPU FGD must allocate, in percent.
const mustAllocate = 95

// runFGD places the arrivals of each seed by each policy, and has a cluster place and bind them by
// the library.
func runFGD(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	machines, tasks, err := workload.Published()
	if err != nil {
		return nil, err
	}
	inputs := make([]*input, cfg.Rounds)
	for i := range inputs {
		inputs[i] = drawInput(machines, tasks, cfg.Nodes, firstSeed+uint64(i))
	}
	cfg.Nodes, cfg.Tasks = len(inputs[0].machines), len(inputs[0].requests)
	mix := mixOf(tasks)
	var rows []rig.Row
	var placed []result
	for n, policy := range nodePolicies() {
		results, err := placeAll(ctx, inputs, mix, policy)
		if err != nil {
			return rows, err
		}
		if n == 0 {
			placed = results
		}
		rows = append(rows, policyRow(cfg, policy, results))
		cfg.Say("%s: %.2f %% of all GPU, published %.2f", policy.name, rows[n].Value, policy.published)
	}
	bound, err := bindAll(ctx, cfg, inputs, placed)
	if err != nil {
		return rows, err
	}
	return append(rows, bound), nil
}

// mixOf is the mix of the tasks' requests.
func mixOf(tasks []workload.Work) *place.Mix {
	mix := new(place.Mix)
	for i := range tasks {
		mix.Add(tasks[i].Requests())
	}
	return mix
}

// placeAll places the arrivals of all seeds.
func placeAll(ctx context.Context, inputs []*input, mix *place.Mix, policy nodePolicy) ([]result, error) {
	var all []result
	for i, in := range inputs {
		p, err := newPlacing(in, mix, policy, firstSeed+uint64(i))
		if err != nil {
			return nil, err
		}
		all = append(all, p.run(in))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return all, nil
}

// policyRow is the row of a policy. Its value is the mean of the seeds; its base is the published
// mean.
func policyRow(cfg rig.Config, policy nodePolicy, results []result) rig.Row {
	var allocated, inFragments, atEnd, published []float64
	for _, r := range results {
		allocated, inFragments, atEnd = append(allocated, r.allocated), append(inFragments, r.inFragments), append(atEnd, r.atEnd)
		published = append(published, policy.published)
	}
	row := rig.NewRow(cfg, policy.name, "% of GPU", allocated).Over("published", allocated, published).
		AddDetail("at_130_percent", []float64{rig.Mean(atEnd)}).AddDetail("fragments", []float64{rig.Mean(inFragments)}).AddDetail("fragments_published", []float64{policy.fragments})
	row.Value, row.Ratio = rig.Mean(allocated), rig.Mean(allocated)/policy.published
	if policy.must > 0 {
		return *row.Require(cfg.Must, rig.Target{Must: policy.must, Unit: " %"})
	}
	return *row.Require(0)
}
