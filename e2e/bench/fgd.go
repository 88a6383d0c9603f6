package bench

import (
	"context"

	"github.com/escher-sched/escher/e2e/bench/workload"
	"github.com/escher-sched/escher/esl/place"
)

// The experiment of the paper on fragmentation gradient descent. On the 1,213 nodes with devices of
// the openb trace, the tasks of the trace arrive in random order, followed by more of them until
// 130 % of all GPU is requested. Each is placed on arrival, or never; none ends. The figure is how
// much of all GPU they hold when as much is requested as exists.

// fgdSeed is the first of the seeds, as in the publication.
const fgdSeed = 42

// packScenarios are about how much of a cluster tasks can use.
func packScenarios() []scenario {
	return []scenario{
		{name: "fgd", about: "how much of all GPU the tasks of the openb trace can have, which share devices: by place.Objective, and by its rivals; a round is a seed",
			full: size{1213, 1, 10}, quick: size{120, 1, 3}, run: runFGD},
		{name: "philly", about: "how long jobs wait, of the busiest week of the Philly trace: first in, first out; any job that fits; tenants by their shares; --speed for another one than 3600",
			full: size{phillyNodes, 14_171, 1}, quick: size{phillyNodes / 10, 14_171, 1}, run: runPhilly},
	}
}

// fgdMust is how much of all GPU FGD must allocate, in percent.
const fgdMust = 95

// runFGD places the arrivals of each seed by each policy, and has a cluster place and bind them by
// the library.
func runFGD(ctx context.Context, cfg Config) ([]Row, error) {
	machines, tasks, err := workload.Published()
	if err != nil {
		return nil, err
	}
	inputs := make([]*fgdInput, cfg.Rounds)
	for i := range inputs {
		inputs[i] = drawFGD(machines, tasks, cfg.Nodes, fgdSeed+uint64(i))
	}
	cfg.Nodes, cfg.Tasks = len(inputs[0].machines), len(inputs[0].requests)
	mix := mixOf(tasks)
	var rows []Row
	var placed []fgdResult
	for n, policy := range fgdPolicies() {
		results, err := placeFGD(ctx, inputs, mix, policy)
		if err != nil {
			return rows, err
		}
		if n == 0 {
			placed = results
		}
		rows = append(rows, fgdRow(cfg, policy, results))
		cfg.progress.say("%s: %.2f %% of all GPU, published %.2f", policy.name, rows[n].Value, policy.published)
	}
	bound, err := bindFGD(ctx, cfg, inputs, placed)
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

// placeFGD places the arrivals of all seeds.
func placeFGD(ctx context.Context, inputs []*fgdInput, mix *place.Mix, policy fgdPolicy) ([]fgdResult, error) {
	var all []fgdResult
	for i, in := range inputs {
		p, err := newFGDPlacing(in, mix, policy, fgdSeed+uint64(i))
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

// fgdRow is the row of a policy. Its value is the mean of the seeds; its base is the published
// mean.
func fgdRow(cfg Config, policy fgdPolicy, results []fgdResult) Row {
	var allocated, inFragments, atEnd, published []float64
	for _, r := range results {
		allocated, inFragments, atEnd = append(allocated, r.allocated), append(inFragments, r.inFragments), append(atEnd, r.atEnd)
		published = append(published, policy.published)
	}
	row := newRow(cfg, policy.name, "% of GPU", allocated).over("published", allocated, published).
		detail("at_130_percent", []float64{mean(atEnd)}).detail("fragments", []float64{mean(inFragments)}).detail("fragments_published", []float64{policy.fragments})
	row.Value, row.Ratio = mean(allocated), mean(allocated)/policy.published
	if policy.must > 0 {
		return *row.require(cfg.Must, target{must: policy.must, unit: " %"})
	}
	return *row.require(0)
}

// mean of xs; 0 if there are none.
func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(max(1, len(xs)))
}
