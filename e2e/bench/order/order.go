package order

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/rig/bubbletest"
	"github.com/escher-sched/escher/types"
)

// Scenarios returns the scenarios about the order of jobs.
func Scenarios() []rig.Scenario {
	return []rig.Scenario{{
		Name: "frontier", Replays: true, About: "scenario order for gangs that collect after other times, and for shortest with other times: mean against longest wait",
		Full: rig.Size{Nodes: 8, Tasks: 400, Rounds: 1}, Quick: rig.Size{Nodes: 4, Tasks: 60, Rounds: 1}, Run: measureFrontier,
	}, {
		Name: "order", Replays: true, About: "how long jobs wait, of five workloads under each policy, in virtual time; compared with textbook disciplines, which are computed without a cluster",
		Full: rig.Size{Nodes: 8, Tasks: 400, Rounds: 1}, Quick: rig.Size{Nodes: 4, Tasks: 60, Rounds: 1}, Run: measure,
	}}
}

// VirtualCommand is the name of the command that runs a workload in virtual time. Its argument is the
// file for the result.
const VirtualCommand = "bench-virtual"

// errand is what that command reads. It writes a span for each job.
type errand struct {
	Workload, Policy string
	// File is where the jobs are from, unless they are generated.
	File        file
	Nodes, Jobs int
	Seed        uint64
}

// load returns the workload of an errand.
func (e errand) load() (load, error) {
	if e.File.Path != "" {
		l, _, _, err := e.File.read(e.Nodes, e.Jobs)
		return l, err
	}
	return workloadOf(e.Workload, e.Nodes, e.Jobs, e.Seed)
}

// RunVirtual is the command VirtualCommand: it runs the workload that in describes, and ends the process.
func RunVirtual(ctx context.Context, in io.Reader, file string) error {
	return bubbletest.Serve(ctx, in, file, func(ctx context.Context, e errand) ([]span, error) {
		l, err := e.load()
		if err != nil {
			return nil, err
		}
		all := append(policies(), frontier()...)
		at := slices.IndexFunc(all, func(p policy) bool { return p.name == e.Policy })
		if at < 0 {
			return nil, types.Errorf(types.Invalid, "policy: %q is unknown", e.Policy)
		}
		return run(ctx, l, all[at])
	})
}

// atOnce is how many workloads run at once, in a process each.
const atOnce = 2

// measure runs every workload under every policy.
func measure(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	return compare(ctx, cfg, disciplines(), policies())
}

// compare runs every workload under every discipline and policy, and draws the picture.
func compare(ctx context.Context, cfg rig.Config, rivals []discipline, all []policy) (rows []rig.Row, err error) {
	if all, err = chosen(all, cfg.Policies); err != nil {
		return nil, err
	}
	workloads, err := workloadsOf(&cfg)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	group := new(errgroup.Group)
	defer func() { stop(); _ = group.Wait() }() // the arms return the errors
	slots := make(chan struct{}, atOnce)
	for _, w := range workloads {
		var arms []rig.Arm
		for _, d := range rivals {
			arms = append(arms, rig.Arm{Name: w.name + "/" + d.name, Measure: eachRound(w.rounds, func(round int) func() (rig.Figures, error) {
				return func() (rig.Figures, error) { return w.withoutCluster(round, d), nil }
			})})
		}
		for _, p := range all {
			arms = append(arms, rig.Arm{Name: w.name + "/" + p.name, Measure: eachRound(w.rounds, func(round int) func() (rig.Figures, error) {
				return ahead(ctx, group, slots, func() (rig.Figures, error) { return w.onCluster(ctx, cfg, round, p) })
			})})
		}
		s, err := rig.Interleave(ctx, cfg, arms...)
		if err != nil {
			return rows, err
		}
		against := w.name + "/" + base
		for _, a := range arms {
			row := rig.NewRow(cfg, a.Name, "s", s.Of(a.Name, meanWait)).Over(against, s.Of(a.Name, meanWait), s.Of(against, meanWait)).AddDetails(s, a.Name, meanWait)
			rows = append(rows, *row.Require(0, rig.Target{Figure: notEnded, AtMost: true, Must: 0, Unit: " not ended"}))
		}
	}
	if cfg.Plot == "" {
		return rows, nil
	}
	if err := os.WriteFile(cfg.Plot, picture(rows), 0o644); err != nil {
		return rows, types.Errorf(types.Unavailable, "write the picture: plot: %w", err)
	}
	return rows, nil
}

// chosen returns the policies that a list of names has; all if it is empty.
func chosen(all []policy, list string) (some []policy, err error) {
	if list == "" {
		return all, nil
	}
	var known []string
	for _, p := range all {
		known = append(known, p.name)
	}
	for _, name := range strings.Split(list, ",") {
		i := slices.Index(known, strings.TrimSpace(name))
		if i < 0 {
			return nil, types.Errorf(types.Invalid, "policies: %.60q is unknown: use some of %s", name, strings.Join(known, ", "))
		}
		some = append(some, all[i])
	}
	return some, nil
}

// drawn is a workload, drawn several times for each round, and the size that was asked for.
type drawn struct {
	name        string
	file        file
	nodes, jobs int
	rounds      [][]load
}

// workloadsOf returns the workloads of a configuration, and sets their size in it.
func workloadsOf(cfg *rig.Config) (all []drawn, err error) {
	f, err := fileOf(*cfg)
	if err != nil {
		return nil, err
	}
	if f.Path != "" {
		l, unfit, left, err := f.read(cfg.Nodes, cfg.Tasks)
		if err != nil {
			return nil, err
		}
		cfg.Say("%s: %d jobs for %d nodes (%d do not fit on them, %d left out by their number or without duration)", f.Path, len(l.jobs), l.nodes, unfit, left)
		w := drawn{name: l.name, file: f, nodes: cfg.Nodes, jobs: cfg.Tasks, rounds: slices.Repeat([][]load{{l}}, cfg.Rounds)}
		cfg.Nodes, cfg.Tasks = l.nodes, len(l.jobs)
		return []drawn{w}, nil
	}
	if cfg.Tasks < leastJobs || cfg.Nodes < leastNodes {
		return nil, types.Errorf(types.Invalid, "tasks %d, nodes %d: give at least %d jobs, and %d nodes", cfg.Tasks, cfg.Nodes, leastJobs, leastNodes)
	}
	for _, name := range names() {
		w := drawn{name: name, nodes: cfg.Nodes, jobs: cfg.Tasks, rounds: make([][]load, cfg.Rounds)}
		for round := range w.rounds {
			for i := range drawsOf(name) {
				l, err := workloadOf(name, cfg.Nodes, cfg.Tasks, w.seed(round, i))
				if err != nil {
					return nil, err
				}
				w.rounds[round] = append(w.rounds[round], l)
			}
		}
		all = append(all, w)
	}
	return all, nil
}

// seed returns the seed of a draw: from 1 on, others in each round, and the same in every measurement.
func (w drawn) seed(round, draw int) uint64 { return uint64(round*drawsOf(w.name) + draw + 1) }

// drawsOf returns how many times a workload is drawn for a round. There is one trace.
func drawsOf(name string) int {
	if name == philly {
		return 1
	}
	return 4
}

// The least size of a measurement: there are gangs, and room for them.
const (
	leastJobs  = 2
	leastNodes = 4
)

// eachRound returns an arm that measures what of returns for each round, in their order.
func eachRound(rounds [][]load, of func(round int) func() (rig.Figures, error)) func(context.Context, rig.Config) (rig.Figures, error) {
	var all []func() (rig.Figures, error)
	for round := range rounds {
		all = append(all, of(round))
	}
	return func(context.Context, rig.Config) (rig.Figures, error) {
		next := all[0]
		all = all[1:]
		return next()
	}
}

// ahead calls f in the background, as soon as there is a slot, and returns a function that waits for the
// result.
func ahead(ctx context.Context, group *errgroup.Group, slots chan struct{}, f func() (rig.Figures, error)) func() (rig.Figures, error) {
	var found rig.Figures
	var err error
	done := make(chan struct{})
	group.Go(func() error {
		defer close(done)
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			found, err = f()
		case <-ctx.Done():
			err = ctx.Err()
		}
		return err
	})
	return func() (rig.Figures, error) {
		<-done
		return found, err
	}
}

// withoutCluster simulates the draws of a round under a discipline.
func (w drawn) withoutCluster(round int, d discipline) rig.Figures {
	var all []rig.Figures
	for _, l := range w.rounds[round] {
		all = append(all, figuresOf(l, simulate(l, d)))
	}
	return summaryOf(all)
}

// onCluster runs the draws of a round under a policy.
func (w drawn) onCluster(ctx context.Context, cfg rig.Config, round int, p policy) (rig.Figures, error) {
	var all []rig.Figures
	for i, l := range w.rounds[round] {
		found, err := oneOnCluster(ctx, cfg, l, errand{Workload: w.name, Policy: p.name, File: w.file, Nodes: w.nodes, Jobs: w.jobs, Seed: w.seed(round, i)})
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	return summaryOf(all), nil
}

// oneOnCluster runs a workload under a policy, in a process of its own.
func oneOnCluster(ctx context.Context, cfg rig.Config, l load, e errand) (rig.Figures, error) {
	name, begin := e.Workload+" under "+e.Policy, time.Now()
	var spans []span
	if err := bubbletest.Ask(ctx, cfg, VirtualCommand, name, e, &spans); err != nil {
		return nil, err
	}
	if len(spans) != len(l.jobs) {
		return nil, types.Errorf(types.Internal, "read the result of %s: it has %d of %d jobs", name, len(spans), len(l.jobs))
	}
	found := figuresOf(l, spans)
	found["took_s"] = time.Since(begin).Seconds()
	return found, nil
}
