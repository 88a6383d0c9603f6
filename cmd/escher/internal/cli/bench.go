package cli

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/internal/bench"
	"github.com/escher-sched/escher/types"
)

const benchHelp = `Measures Escher on a cluster of its own, which it starts in a directory on a disk and
removes afterwards: etcd, schedulers and the load are processes of their own. Beside
each figure stands what it is compared with, measured in turns with it in the same run:
mostly the floor, what etcd or containerd itself does with the same work, over the same
transport. Only the ratio says something of Escher; run it on a machine that does
nothing else.

--trace replays a workload instead: a directory with nodes.csv and tasks.csv (or .csv.gz),
of any cluster, in the columns that docs/performance.md lists.

Every run ends with an audit of the state; a violation fails it. Without --scenario and
--trace it lists what can be measured.`

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
			if cfg.Scenario == "" && cfg.Trace == "" {
				return listScenarios(f)
			}
			cfg.Progress, cfg.Log = f.Err, zap.NewNop()
			if width, _, terminal := f.terminalSize(f.Err); terminal {
				cfg.Width = width
			}
			var err error
			if cfg.Escher, err = f.Executable(); err != nil {
				return types.Errorf(types.Internal, "find this program: %w", err)
			}
			rows, err := bench.Run(cmd.Context(), cfg)
			write := bench.WriteTable
			if lines {
				write = bench.WriteJSON
			}
			if len(rows) > 0 {
				if err := write(f.Out, rows); err != nil {
					return err
				}
			}
			if err != nil {
				return err
			}
			return bench.Violated(rows)
		},
	}
	set := cmd.Flags()
	set.StringVar(&cfg.Scenario, "scenario", "", "what to measure; all: whatever needs no containers")
	set.StringVar(&cfg.Trace, "trace", "", "directory of a workload to replay instead; --tasks of it at most")
	set.Float64Var(&cfg.Speed, "speed", 0, "how many times as fast a workload is replayed; 0 makes it take a minute")
	set.StringVar(&cfg.Dir, "data", os.TempDir(), "directory on a disk for etcd's data")
	set.IntVar(&cfg.Nodes, "nodes", 0, "how many nodes; 0 is what the scenario says")
	set.IntVar(&cfg.Tasks, "tasks", 0, "how many tasks; 0 is what the scenario says")
	set.IntVar(&cfg.Rounds, "rounds", 0, "how often to measure; medians count; 0 is what the scenario says")
	set.IntVar(&cfg.Ops, "ops", 0, "operations that etcd allows in a transaction; 0 is what it allows untold, 128")
	set.BoolVar(&cfg.Quick, "quick", false, "small sizes: under a minute a scenario")
	set.StringVar(&cfg.Profile, "profile", "", "directory for CPU profiles of what is measured, one a process")
	set.StringVar(&cfg.Plot, "plot", "", "file for a picture (SVG), of a scenario that draws one")
	set.Float64Var(&cfg.Must, "must", 0, "the figure to be called ok; 0 is what the scenario says")
	set.BoolVar(&lines, "json", false, "print JSON lines")
	_ = cmd.RegisterFlagCompletionFunc("scenario", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, s := range bench.Scenarios() {
			names = append(names, s[0]+"\t"+s[1])
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// listScenarios prints what can be measured.
func listScenarios(f *Factory) error {
	t := tabwriter.NewWriter(f.Out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "SCENARIO\tMEASURES")
	for _, s := range bench.Scenarios() {
		fmt.Fprintln(t, strings.Join(s[:], "\t"))
	}
	return t.Flush()
}

// newBenchRole makes the command that runs one part of a cluster that is measured.
func newBenchRole(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:    bench.RoleCommand + " PART",
		Short:  "Run a part of a cluster that is measured; for escher bench to call",
		Hidden: true,
		Args:   exactly("PART"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return bench.RunRole(cmd.Context(), args[0], f.In, f.raw())
		},
	}
}
