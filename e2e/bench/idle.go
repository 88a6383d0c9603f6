package bench

import (
	"context"
	"time"

	"github.com/prometheus/procfs"

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
func runIdle(ctx context.Context, cfg Config) ([]Row, error) {
	var rounds []round
	err := withLive(ctx, cfg, func(ctx context.Context, l *live) error {
		if err := sleep(ctx, settle); err != nil {
			return err
		}
		proc, err := procfs.NewProc(l.cmd.Process.Pid)
		if err != nil {
			return types.Errorf(types.Internal, "look at process %d: %w", l.cmd.Process.Pid, err)
		}
		for i := range cfg.Rounds {
			before, err := proc.Stat()
			if err != nil {
				return err
			}
			begin := time.Now()
			if err := sleep(ctx, sample); err != nil {
				return err
			}
			after, err := proc.Stat()
			if err != nil {
				return err
			}
			r := round{
				value: float64(after.ResidentMemory()) / (1 << 20),
				floor: 100 * (after.CPUTime() - before.CPUTime()) / time.Since(begin).Seconds(),
			}
			cfg.progress.say("sample %d of %d: %.0f MiB, %.2f %% of a core", i+1, cfg.Rounds, r.value, r.floor)
			rounds = append(rounds, r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	row := summary(cfg, "% of a core", "MiB", rounds)
	row.Ratio, row.RatioLow, row.RatioHigh = 0, 0, 0
	row.detail("core_percent", []float64{row.Floor})
	return []Row{*row.require(cfg.Must, target{atMost: true, must: 150, unit: " MiB"}, target{figure: "core_percent", atMost: true, must: mostCPU, unit: " %"})}, nil
}
