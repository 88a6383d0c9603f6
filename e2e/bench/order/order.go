package order

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/rig/bubbletest"
	"github.com/escher-sched/escher/types"
)

// Scenarios returns the scenario about the order of jobs.
func Scenarios() []rig.Scenario {
	return []rig.Scenario{{
		Name: "order", About: "how long jobs wait, of five workloads under each policy, in virtual time; compared with textbook disciplines, which are computed without a cluster",
		Full: rig.Size{Nodes: 8, Tasks: 400, Rounds: 1}, Quick: rig.Size{Nodes: 4, Tasks: 60, Rounds: 1}, Run: measure,
	}}
}

// VirtualCommand is the name of the command that runs a workload in virtual time. Its argument is the
// file for the result.
const VirtualCommand = "bench-virtual"

// errand is what that command reads. It writes a span for each job.
type errand struct {
	Workload, Policy string
	Nodes, Jobs      int
	Seed             uint64
}

// RunVirtual is the command VirtualCommand: it runs the workload that in describes, and ends the process.
// The process ends earlier when ctx is done, or in ends.
func RunVirtual(ctx context.Context, in io.Reader, file string) error {
	var e errand
	if err := json.NewDecoder(in).Decode(&e); err != nil {
		return types.Errorf(types.Invalid, "read what to run: %w", err)
	}
	context.AfterFunc(ctx, func() { os.Exit(types.ExitInterrupted) })
	go func() {
		_, _ = io.Copy(io.Discard, in) // its end is that of the parent
		os.Exit(types.ExitInterrupted)
	}()
	l, err := workloadOf(e.Workload, e.Nodes, e.Jobs, e.Seed)
	if err != nil {
		return err
	}
	all := policies()
	at := slices.IndexFunc(all, func(p policy) bool { return p.name == e.Policy })
	if at < 0 {
		return types.Errorf(types.Invalid, "policy: %q is unknown", e.Policy)
	}
	bubbletest.Exit(func(ctx context.Context) error {
		spans, err := run(ctx, l, all[at])
		if err != nil {
			return err
		}
		text, err := json.Marshal(spans)
		if err != nil {
			return types.Errorf(types.Internal, "write the result: %w", err)
		}
		return os.WriteFile(file, text, 0o600)
	})
	return nil
}

// atOnce is how many workloads run at once, in a process each.
const atOnce = 2

// measure runs every workload under every policy.
func measure(ctx context.Context, cfg rig.Config) (rows []rig.Row, err error) {
	if cfg.Tasks < leastJobs || cfg.Nodes < leastNodes {
		return nil, types.Errorf(types.Invalid, "tasks %d, nodes %d: give at least %d jobs, and %d nodes", cfg.Tasks, cfg.Nodes, leastJobs, leastNodes)
	}
	ctx, stop := context.WithCancel(ctx)
	group := new(errgroup.Group)
	defer func() { stop(); _ = group.Wait() }() // the arms return the errors
	slots := make(chan struct{}, atOnce)
	for _, name := range names() {
		draws := make([]load, drawsOf(name))
		for i := range draws {
			if draws[i], err = workloadOf(name, cfg.Nodes, cfg.Tasks, uint64(i+1)); err != nil {
				return rows, err
			}
		}
		var arms []rig.Arm
		for _, d := range disciplines() {
			arms = append(arms, rig.Arm{Name: name + "/" + d.name, Measure: func(context.Context, rig.Config) (rig.Figures, error) {
				var all []rig.Figures
				for _, l := range draws {
					all = append(all, figuresOf(l, simulate(l, d)))
				}
				return summaryOf(all), nil
			}})
		}
		for _, p := range policies() {
			arms = append(arms, rig.Arm{Name: name + "/" + p.name, Measure: ahead(ctx, group, slots, func() (rig.Figures, error) { return onCluster(ctx, cfg, draws, p) })})
		}
		s, err := rig.Interleave(ctx, cfg, arms...)
		if err != nil {
			return rows, err
		}
		against := name + "/" + base
		for _, a := range arms {
			row := rig.NewRow(cfg, a.Name, "s", s.Of(a.Name, meanWait)).Over(against, s.Of(a.Name, meanWait), s.Of(against, meanWait)).AddDetails(s, a.Name, meanWait)
			rows = append(rows, *row.Require(0, rig.Target{Figure: notEnded, AtMost: true, Must: 0, Unit: " not ended"}))
		}
	}
	return rows, nil
}

// drawsOf returns how many times a workload is drawn, with seeds from 1 on: every measurement has the
// same. There is one trace.
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

// ahead calls f once in the background, as soon as there is a slot, and returns an arm that waits for
// the result. Another round gets the same: time is virtual.
func ahead(ctx context.Context, group *errgroup.Group, slots chan struct{}, f func() (rig.Figures, error)) func(context.Context, rig.Config) (rig.Figures, error) {
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
	return func(context.Context, rig.Config) (rig.Figures, error) {
		<-done
		return found, err
	}
}

// onCluster runs the draws of a workload under a policy.
func onCluster(ctx context.Context, cfg rig.Config, draws []load, p policy) (rig.Figures, error) {
	var all []rig.Figures
	for i, l := range draws {
		found, err := oneOnCluster(ctx, cfg, l, uint64(i+1), p)
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	return summaryOf(all), nil
}

// oneOnCluster runs a workload under a policy, in a process of its own.
func oneOnCluster(ctx context.Context, cfg rig.Config, l load, seed uint64, p policy) (found rig.Figures, err error) {
	err = rig.WithDirectory(cfg, func(dir string) error {
		ask, err := json.Marshal(errand{Workload: l.name, Policy: p.name, Nodes: cfg.Nodes, Jobs: cfg.Tasks, Seed: seed})
		if err != nil {
			return types.Errorf(types.Internal, "write what to run: %w", err)
		}
		file, begin := filepath.Join(dir, "result.json"), time.Now()
		cmd := exec.CommandContext(ctx, cfg.Self, VirtualCommand, file)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		// The pipe is open for as long as this process lives.
		asking, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			_, writing := asking.Write(ask)
			err = errors.Join(cmd.Wait(), writing)
		}
		if err != nil {
			return types.Errorf(types.Internal, "run %s under %s: %w: %s", l.name, p.name, err, said.String())
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return types.Errorf(types.Internal, "read the result of %s under %s: %w", l.name, p.name, err)
		}
		var spans []span
		if err := json.Unmarshal(text, &spans); err != nil {
			return types.Errorf(types.Internal, "read the result of %s under %s: %w", l.name, p.name, err)
		}
		if len(spans) != len(l.jobs) {
			return types.Errorf(types.Internal, "read the result of %s under %s: it has %d of %d jobs", l.name, p.name, len(spans), len(l.jobs))
		}
		found = figuresOf(l, spans)
		found["took_s"] = time.Since(begin).Seconds()
		return nil
	})
	return found, err
}
