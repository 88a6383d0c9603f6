package bench

import (
	"context"
	"time"

	"github.com/prometheus/procfs"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

const (
	// settle is how long a cluster is left alone before it counts as idle.
	settle = 20 * time.Second
	// sample is the duration of one sample.
	sample = 4 * time.Second
	// mostCPU is the CPU time that an idle cluster may use, in percent of one core.
	mostCPU = 1
)

// runIdle measures the memory and CPU time of a cluster without tasks. The value is resident memory
// in MiB, the floor the CPU time in percent of one core. containerd is a separate process and does
// not count.
func runIdle(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	var rounds []rig.Round
	err := rig.WithLive(ctx, cfg, func(ctx context.Context, l *rig.Live) error {
		if err := rig.Sleep(ctx, settle); err != nil {
			return err
		}
		proc, err := procfs.NewProc(l.PID())
		if err != nil {
			return types.Errorf(types.Internal, "look at process %d: %w", l.PID(), err)
		}
		for i := range cfg.Rounds {
			before, err := proc.Stat()
			if err != nil {
				return err
			}
			begin := time.Now()
			if err := rig.Sleep(ctx, sample); err != nil {
				return err
			}
			after, err := proc.Stat()
			if err != nil {
				return err
			}
			r := rig.Round{
				Value: float64(after.ResidentMemory()) / (1 << 20),
				Floor: 100 * (after.CPUTime() - before.CPUTime()) / time.Since(begin).Seconds(),
			}
			cfg.Say("sample %d of %d: %.0f MiB, %.2f %% of a core", i+1, cfg.Rounds, r.Value, r.Floor)
			rounds = append(rounds, r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	row := rig.Summarize(cfg, "% of a core", "MiB", rounds)
	row.Ratio, row.RatioLow, row.RatioHigh = 0, 0, 0
	row.AddDetail("core_percent", []float64{row.Floor})
	return []rig.Row{*row.Require(cfg.Must, rig.Target{AtMost: true, Must: 150, Unit: " MiB"}, rig.Target{Figure: "core_percent", AtMost: true, Must: mostCPU, Unit: " %"})}, nil
}
