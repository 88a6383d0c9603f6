package cli

import (
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/internal/bench"
	"github.com/escher-sched/escher/types"
)

const benchHelp = `Measures Escher on an etcd of its own, which it starts in a directory on a disk and
removes afterwards. Beside each figure stands the floor: what etcd itself does with
bare transactions of the same shape, over the same transport, in the same run. Only
the ratio says something of Escher; run it on a machine that does nothing else.

  bind   tasks a second, from all of them pending to the last one durably bound`

// newBench makes the command that measures.
func newBench(f *Factory) *cobra.Command {
	cfg := bench.Config{}
	var lines bool
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure Escher against the floor that etcd sets",
		Long:  benchHelp,
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Progress, cfg.Log = f.Err, zap.NewNop()
			row, err := bench.Run(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			write := bench.WriteTable
			if lines {
				write = bench.WriteJSON
			}
			if err := write(f.Out, []bench.Row{row}); err != nil {
				return err
			}
			if row.Violations > 0 {
				return types.Errorf(types.Internal, "bench: the audit found %d violations", row.Violations)
			}
			return nil
		},
	}
	set := cmd.Flags()
	set.StringVar(&cfg.Scenario, "scenario", "bind", "what to measure")
	set.StringVar(&cfg.Dir, "data", os.TempDir(), "directory on a disk for etcd's data")
	set.IntVar(&cfg.Nodes, "nodes", 5000, "how many hollow nodes")
	set.IntVar(&cfg.Tasks, "tasks", 50000, "how many tasks")
	set.IntVar(&cfg.Rounds, "rounds", 3, "how many pairs of floor and scenario; medians count")
	set.Float64Var(&cfg.MustPerSecond, "must", 8000, "the rate to be called ok")
	set.BoolVar(&lines, "json", false, "print JSON lines")
	return cmd
}
