// Package estimate measures what requests of memory cost that follow from past runs, next to those that
// users declare.
package estimate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/history"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/workload"
	"github.com/escher-sched/escher/esl"
	policy "github.com/escher-sched/escher/esl/estimate"
	"github.com/escher-sched/escher/types"
)

// Scenarios returns the scenario about estimates.
func Scenarios() []rig.Scenario {
	return []rig.Scenario{{
		Name: "estimate", About: "memory that tasks request, use, and lose to kills, by estimates from past runs; beside what users declare",
		Full: rig.Size{Nodes: 1, Tasks: 8000, Rounds: 1}, Quick: rig.Size{Nodes: 1, Tasks: 1000, Rounds: 1}, Run: measure,
	}}
}

// run is one run of a job.
type run struct {
	name string
	// at is its start and length its length, in seconds.
	at, length float64
	// declares is what its user requests, and uses the peak of its memory, in bytes. killedAt is the part
	// of its length after which it reaches more than it may use.
	declares, uses types.Quantity
	killedAt       float64
}

// fixed is the name of the arm that requests what users declare.
const fixed = "declared"

// arms are the policies by name; nil means as declared.
func arms() ([]string, map[string]esl.Policy) {
	return []string{fixed, "p50", "p95", "p99", "p99-30%", "p100"}, map[string]esl.Policy{
		fixed: nil, "p50": policy.Estimate{Memory: "p50"}, "p95": policy.Estimate{Memory: "p95"}, "p99": policy.Estimate{Memory: "p99"},
		"p99-30%": policy.Estimate{Memory: "p99", Margin: "30%"}, "p100": policy.Estimate{Memory: "p100"},
	}
}

// measure runs each workload under each policy.
func measure(ctx context.Context, cfg rig.Config) (rows []rig.Row, err error) {
	openb, err := published(cfg.Tasks)
	if err != nil {
		return nil, err
	}
	names, policies := arms()
	for _, load := range []struct {
		name string
		runs []run
	}{{"openb", openb}, {"steady", generated(cfg.Tasks, 0.05, 0)}, {"varied", generated(cfg.Tasks, 0.4, 0)}, {"growing", generated(cfg.Tasks, 0.1, 1)}} {
		var all []rig.Arm
		for _, name := range names {
			all = append(all, rig.Arm{Name: load.name + "/" + name, Measure: func(context.Context, rig.Config) (rig.Figures, error) {
				return figures(load.runs, policies[name])
			}})
		}
		s, err := rig.Interleave(ctx, cfg, all...)
		if err != nil {
			return rows, err
		}
		against := load.name + "/" + fixed
		for _, a := range all {
			rows = append(rows, *rig.NewRow(cfg, a.Name, "% of requests used", s.Of(a.Name, usedPercent)).
				Over(against, s.Of(a.Name, usedPercent), s.Of(against, usedPercent)).AddDetails(s, a.Name, usedPercent))
		}
	}
	return rows, nil
}

// Names of figures.
const (
	usedPercent = "used_percent"
	// requested and used are in GiB times hours.
	requested = "requested_gib_h"
	used      = "used_gib_h"
	// lostPercent is what killed attempts requested, in percent of all that was requested; kills is how
	// many there were for 100 runs, and failed how many runs ended so, for 100.
	lostPercent = "lost_percent"
	kills       = "kills_percent"
	failed      = "failed_percent"
)

// retries is how many times a killed run is run again.
const retries = 3

// figures runs a workload under a policy: each run requests what the policy says by the runs before it,
// which the server would have counted.
func figures(runs []run, p esl.Policy) (rig.Figures, error) {
	histories := make(map[string]*types.History)
	var sum struct{ requested, used, lost, kills, failed float64 }
	for i, r := range runs {
		request, err := requests(r, p, histories)
		if err != nil {
			return nil, err
		}
		if histories[r.name] == nil {
			histories[r.name] = new(types.History)
		}
		ended := r.at
		for attempt := 0; ; attempt++ {
			s := types.Status{Phase: types.Succeeded, Started: nanos(ended), Used: types.Used{Memory: min(r.uses, request)}}
			length := r.length
			if r.uses > request {
				length *= r.killedAt
				s.Phase, s.Cause = types.Failed, types.CauseMemory
			}
			ended += length
			s.Ended = nanos(ended)
			if past, ok := history.RunOf(&s); ok {
				history.Add(histories[r.name], []history.Run{past}, int64(i))
			}
			sum.requested += float64(request) * length
			if s.Phase == types.Succeeded {
				sum.used += float64(r.uses) * length
				break
			}
			sum.lost += float64(request) * length
			sum.kills++
			if attempt == retries {
				sum.failed++
				break
			}
			if p != nil {
				request = policy.Grown(request)
			}
		}
	}
	n, unit := float64(len(runs)), float64(1<<30)*3600
	return rig.Figures{
		usedPercent: 100 * sum.used / sum.requested, requested: sum.requested / unit, used: sum.used / unit,
		lostPercent: 100 * sum.lost / sum.requested, kills: 100 * sum.kills / n, failed: 100 * sum.failed / n,
	}, nil
}

func nanos(seconds float64) int64 { return int64(seconds*1e9) + int64(time.Hour) }

// requests returns the memory that a run requests.
func requests(r run, p esl.Policy, past map[string]*types.History) (types.Quantity, error) {
	if p == nil {
		return r.declares, nil
	}
	t := types.Task{Requests: types.NewRequests(map[string]types.Quantity{string(types.Memory): r.declares})}
	g := &esl.Group{Namespace: rig.Namespace, ID: "j", Name: r.name, Tasks: []controlplane.Submission{{Task: t}}, Histories: past}
	if err := g.Apply([]esl.Policy{p}); err != nil {
		return 0, err
	}
	return g.Tasks[0].Task.Requests.Get(string(types.Memory)), nil
}

// A week of runs.
const week = 7 * 24 * 3600

// generated returns runs of jobs that come again: a hundred names, whose users declare three times what
// they use, give or take, and a few too little. sigma is how much the runs of a name differ, as that of the
// logarithm, and growth by how much a name uses more in the end.
func generated(n int, sigma, growth float64) []run {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	const names = 100
	var typical, declares, length [names]float64
	for i := range names {
		typical[i] = float64(4<<30) * math.Exp(1.2*rng.NormFloat64())
		declares[i] = typical[i] * 3 * math.Exp(0.6*rng.NormFloat64())
		length[i] = 1800 * math.Exp(1.2*rng.NormFloat64())
	}
	runs := make([]run, n)
	for i := range runs {
		k, at := rng.IntN(names), float64(i)/float64(n)
		uses := typical[k] * (1 + growth*at) * math.Exp(sigma*rng.NormFloat64())
		runs[i] = run{
			name: fmt.Sprintf("job-%d", k), at: at * week, length: length[k] * math.Exp(0.5*rng.NormFloat64()),
			declares: types.Quantity(declares[k]), uses: max(1<<20, types.Quantity(uses)), killedAt: rng.Float64(),
		}
	}
	return runs
}

// published returns tasks of the openb trace, in its order. It has no usage: those that request the same
// are the runs of a name, which use a part of that, a third on average, and differ by a fifth.
func published(n int) ([]run, error) {
	_, tasks, err := workload.Published()
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(2, uint64(n)))
	parts := make(map[string]float64)
	var runs []run
	for _, w := range tasks {
		name := fmt.Sprintf("%d-%d-%d-%d", w.CPUMilli, w.MemMiB, w.GPUs, w.GPUMilli)
		if w.MemMiB == 0 {
			continue
		}
		if parts[name] == 0 {
			parts[name] = min(1, 0.33*math.Exp(0.5*rng.NormFloat64()))
		}
		declares := types.Quantity(w.MemMiB) << 20
		uses := types.Quantity(float64(declares) * min(1, parts[name]*math.Exp(0.2*rng.NormFloat64())))
		runs = append(runs, run{name: name, length: 600 * math.Exp(1.5*rng.NormFloat64()), declares: declares, uses: max(1<<20, uses), killedAt: rng.Float64()})
	}
	rng.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
	runs = runs[:min(n, len(runs))]
	for i := range runs {
		runs[i].at = week * float64(i) / float64(len(runs))
	}
	return runs, nil
}
