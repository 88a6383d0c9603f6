package interleave

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/rig/bubbletest"
	"github.com/escher-sched/escher/types"
)

// Scenarios returns the scenarios about jobs that share devices by phase.
func Scenarios() []rig.Scenario {
	return []rig.Scenario{
		{Name: "interleave", About: "how long jobs take that share devices by phase, in virtual time on simulated devices; compared with a device for each, and with halves of devices",
			Full: rig.Size{Nodes: 4, Tasks: 160, Rounds: 1}, Quick: rig.Size{Nodes: 1, Tasks: 16, Rounds: 1}, Run: measure},
		{Name: "hold", About: "how long a task takes to get a unit of a resource by its socket: one that is free, and one that another task returns",
			Full: rig.Size{Nodes: 1, Tasks: 400, Rounds: 15}, Quick: rig.Size{Nodes: 1, Tasks: 300, Rounds: 3}, Run: measureHold},
	}
}

// VirtualCommand is the name of the command that runs a workload in virtual time. Its argument is the
// file for the result.
const VirtualCommand = "bench-interleave"

// errand is what that command reads. It writes a span for each job.
type errand struct {
	Workload, Way string
	Nodes, Jobs   int
	Seed          uint64
}

// RunVirtual is the command VirtualCommand: it runs the workload that in describes, and ends the process.
func RunVirtual(ctx context.Context, in io.Reader, file string) error {
	return bubbletest.Serve(ctx, in, file, func(ctx context.Context, e errand) ([]span, error) {
		m := slices.IndexFunc(mixes(), func(m mix) bool { return m.name == e.Workload })
		how := slices.IndexFunc(ways(), func(w way) bool { return w.name == e.Way })
		if m < 0 || how < 0 {
			return nil, types.Errorf(types.Invalid, "workload %q, way %q: one of them is unknown", e.Workload, e.Way)
		}
		return run(ctx, e.Nodes, mixes()[m].generate(e.Nodes*perNode, e.Jobs, e.Seed), ways()[how])
	})
}

// draws is how many times a workload is drawn, with seeds from 1 on.
const draws = 3

// measure runs every workload in every way.
func measure(ctx context.Context, cfg rig.Config) (rows []rig.Row, err error) {
	for _, m := range mixes() {
		var arms []rig.Arm
		for _, how := range ways() {
			arms = append(arms, rig.Arm{Name: m.name + "/" + how.name, Measure: func(ctx context.Context, cfg rig.Config) (rig.Figures, error) { return drawn(ctx, cfg, m, how) }})
		}
		s, err := rig.Interleave(ctx, cfg, arms...)
		if err != nil {
			return rows, err
		}
		base := m.name + "/" + exclusive
		for _, a := range arms {
			row := rig.NewRow(cfg, a.Name, "s", s.Of(a.Name, completion)).Over(base, s.Of(a.Name, completion), s.Of(base, completion)).AddDetails(s, a.Name, completion)
			if most, bounded := mosts()[a.Name]; bounded {
				row = row.Require(0, rig.Target{Figure: rig.Ratio, AtMost: true, Must: most})
			}
			rows = append(rows, *row)
		}
	}
	return rows, nil
}

// mosts are the bounds of completion times, relative to a device for each job.
func mosts() map[string]float64 {
	return map[string]float64{"busy/interleave": 0.9, "full/interleave": 0.75, "light/interleave": 1.02, "compute/interleave": 1.02, "alone/interleave": 1.001}
}

// drawn runs the draws of a workload.
func drawn(ctx context.Context, cfg rig.Config, m mix, how way) (rig.Figures, error) {
	sum := make(rig.Figures)
	for seed := uint64(1); seed <= draws; seed++ {
		begin := time.Now()
		var spans []span
		if err := bubbletest.Ask(ctx, cfg, VirtualCommand, m.name+", "+how.name, errand{Workload: m.name, Way: how.name, Nodes: cfg.Nodes, Jobs: cfg.Tasks, Seed: seed}, &spans); err != nil {
			return nil, err
		}
		jobs := m.generate(cfg.Nodes*perNode, cfg.Tasks, seed)
		if len(spans) != len(jobs) {
			return nil, types.Errorf(types.Internal, "read the result of %s, %s: it has %d of %d jobs", m.name, how.name, len(spans), len(jobs))
		}
		found := figuresOf(cfg.Nodes*perNode, jobs, spans)
		found["took_s"] = time.Since(begin).Seconds()
		for name, x := range found {
			sum[name] += x / draws
		}
	}
	return sum, nil
}

// Names of figures. Times are in seconds.
const (
	completion  = "completion_s"
	longestTook = "longest_s"
	slowdown    = "slowdown"
	makespan    = "makespan_s"
	sharing     = "sharing_percent"
	workDone    = "work_percent"
)

// figuresOf returns the figures of a run. The slowdown is the time from the start of a job to its end,
// relative to a device of its own; the work is the time that all jobs would take alone, as a part of
// that of all devices until the last job ends.
func figuresOf(devices int, jobs []job, spans []span) rig.Figures {
	var took, slow, shared, work, last, most float64
	for i, j := range jobs {
		one := (spans[i].End - j.At).Seconds()
		took, most = took+one, max(most, one)
		slow += (spans[i].End - spans[i].Begin).Seconds() / j.alone().Seconds()
		work, last = work+j.alone().Seconds(), max(last, spans[i].End.Seconds())
		if spans[i].Shared {
			shared++
		}
	}
	n := float64(len(jobs))
	return rig.Figures{
		completion: took / n, longestTook: most, slowdown: slow / n, makespan: last,
		sharing: 100 * shared / n, workDone: 100 * work / (float64(devices) * last),
	}
}
