package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/internal/bench"
	"github.com/escher-sched/escher/types"
)

const benchHelp = `Measures Escher on a cluster of its own, which it starts in a directory on a disk and
removes afterwards. Beside each figure stands the floor: what etcd or containerd itself
does with the same work, over the same transport, in the same run. Only the ratio says
something of Escher; run it on a machine that does nothing else.

  bind     tasks a second, from all of them pending to the last one durably bound
  submit   from submitting a task to seeing it bound, idle; beside one put of etcd
  start    from submitting a task to seeing it run; beside containerd's client
  tasks    tasks of "true" a second, to the end; beside containerd's client
  idle     memory and processor time of a cluster on which nothing runs`

// newBench makes the command that measures.
func newBench(f *Factory) *cobra.Command {
	cfg := bench.Config{}
	var lines bool
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure Escher against the floor under it",
		Long:  benchHelp,
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Progress, cfg.Log = f.Err, zap.NewNop()
			var err error
			if cfg.Escher, err = f.Executable(); err != nil {
				return types.Errorf(types.Internal, "find this program: %w", err)
			}
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
	set.StringVar(&cfg.Scenario, "scenario", "bind", "what to measure: "+strings.Join(bench.Scenarios(), ", "))
	set.StringVar(&cfg.Dir, "data", os.TempDir(), "directory on a disk for etcd's data")
	set.IntVar(&cfg.Nodes, "nodes", 0, "how many nodes; 0 is what the scenario says")
	set.IntVar(&cfg.Tasks, "tasks", 0, "how many tasks; 0 is what the scenario says")
	set.IntVar(&cfg.Rounds, "rounds", 0, "how many pairs of floor and scenario; medians count; 0 is what the scenario says")
	set.Float64Var(&cfg.Must, "must", 0, "the figure to be called ok; 0 is what the scenario says")
	set.BoolVar(&lines, "json", false, "print JSON lines")
	return cmd
}
