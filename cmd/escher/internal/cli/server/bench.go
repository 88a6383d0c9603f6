//go:build linux

package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/types"
)

const benchHelp = `Measures Escher on a cluster of its own, which it starts in a directory on a disk and
removes afterwards: etcd, schedulers and the load are separate processes. Next to each
figure it prints the one to compare with, measured in turns in the same run: mostly what
etcd or containerd alone does with the same work over the same transport. Compare the
ratios, not the figures, and use a machine that runs nothing else.

--trace replays a workload instead: a directory with nodes.csv and tasks.csv (or .csv.gz),
of any cluster, in the columns that docs/performance.md lists.

--workload replays a table of jobs, or such a directory, in virtual time, and compares the
order of each policy: with --scenario order or frontier.

Every run ends with an audit of the state; a violation fails it. Without --scenario and
--trace it lists what can be measured.

  escher bench
  escher bench --scenario submit --quick --data /var/tmp
  escher bench --scenario order --workload jobs.csv --nodes 16 --policies default,shortest`

// BenchProgram is the name of the benchmark program. It is in the directory of escher.
const BenchProgram = "escher-bench"

// benchConfig is the configuration that escher bench passes to the benchmark program: the fields of
// rig.Config in package e2e/bench/rig.
type benchConfig struct {
	Scenario, Escher, Dir     string
	Nodes, Tasks, Rounds, Ops int
	Quick                     bool
	Trace                     string
	Speed, Must, Load         float64
	Workload, NodeHas         string
	Policies                  string
	Profile, Plot             string
	JSON                      bool
	Width                     int
}

// NewBench returns the command that runs benchmarks.
func NewBench(f *cmdutil.Factory) *cobra.Command {
	cfg := benchConfig{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure Escher against etcd and containerd alone",
		Long:  benchHelp,
		Args:  cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.Scenario == "" && cfg.Trace == "" {
				return listScenarios(f, cmd.Context())
			}
			return bench(f, cmd.Context(), cfg)
		},
	}
	set := cmd.Flags()
	set.StringVar(&cfg.Scenario, "scenario", "", "scenario to measure; all: those that need no containers")
	set.StringVar(&cfg.Trace, "trace", "", "directory of a workload to replay instead; --tasks of it at most")
	set.Float64Var(&cfg.Speed, "speed", 0, "speed-up of a replayed workload; 0 makes it take a minute")
	set.StringVar(&cfg.Workload, "workload", "", "jobs for the scenario order: a CSV file, or a directory as of --trace")
	set.StringVar(&cfg.NodeHas, "node-has", "", "capacity of each of --nodes for --workload, such as gpu=8,cpu=64,memory=256Gi")
	set.Float64Var(&cfg.Load, "load", 0, "part of the nodes that --workload asks for, by moving arrivals; 0 leaves them")
	set.StringVar(&cfg.Policies, "policies", "", "policies that order, frontier or cost measures, separated by commas; all if left out")
	set.StringVar(&cfg.Dir, "data", os.TempDir(), "directory on a disk for etcd's data")
	set.IntVar(&cfg.Nodes, "nodes", 0, "number of nodes; 0 means that of the scenario")
	set.IntVar(&cfg.Tasks, "tasks", 0, "number of tasks; 0 means that of the scenario")
	set.IntVar(&cfg.Rounds, "rounds", 0, "number of measurements, of which the median counts; 0 means that of the scenario")
	set.IntVar(&cfg.Ops, "ops", 0, "operations that etcd allows in a transaction; 0 means its default, 128")
	set.BoolVar(&cfg.Quick, "quick", false, "small sizes: less than a minute per scenario")
	set.StringVar(&cfg.Profile, "profile", "", "directory for CPU profiles, one per process")
	set.StringVar(&cfg.Plot, "plot", "", "file for a picture (SVG), of a scenario that draws one")
	set.Float64Var(&cfg.Must, "must", 0, "figure from which the result is ok; 0 means that of the scenario")
	set.BoolVar(&cfg.JSON, "json", false, "print JSON lines")
	_ = cmd.RegisterFlagCompletionFunc("scenario", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		names, err := scenarios(f, cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// bench runs the benchmark program. It exits with the exit code of that program, which has printed
// the reason.
func bench(f *cmdutil.Factory, ctx context.Context, cfg benchConfig) error {
	cmd, err := benchCommand(f, ctx, "run")
	if err != nil {
		return err
	}
	if cfg.Escher, err = f.Executable(); err != nil {
		return types.Errorf(types.Internal, "find this program: %w", err)
	}
	if width, _, terminal := f.TerminalSize(f.Err); terminal {
		cfg.Width = width
	}
	input, err := json.Marshal(cfg)
	if err != nil {
		return types.Errorf(types.Internal, "encode the configuration: %w", err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), f.Out, f.Err
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		return cmdutil.Ended{Code: exit.ExitCode()}
	}
	if err != nil {
		return types.Errorf(types.Internal, "run %s: %w", cmd.Path, err)
	}
	return nil
}

// benchCommand returns the call of the benchmark program. An interrupt asks that program to end
// gracefully, because it has processes of its own.
func benchCommand(f *cmdutil.Factory, ctx context.Context, verb string) (*exec.Cmd, error) {
	self, err := f.Executable()
	if err != nil {
		return nil, types.Errorf(types.Internal, "find this program: %w", err)
	}
	path := filepath.Join(filepath.Dir(self), BenchProgram)
	if _, err := os.Stat(path); err != nil {
		return nil, types.Errorf(types.Precondition, "find %s: %w: make build in the source builds it: copy it to where escher is", path, err)
	}
	cmd := exec.CommandContext(ctx, path, verb)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd, nil
}

// scenarios returns the benchmarks: name, tab, and description.
func scenarios(f *cmdutil.Factory, ctx context.Context) ([]string, error) {
	cmd, err := benchCommand(f, ctx, "scenarios")
	if err != nil {
		return nil, err
	}
	text, err := cmd.Output()
	if err != nil {
		return nil, types.Errorf(types.Internal, "run %s: %w", cmd.Path, err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n"), nil
}

// listScenarios prints the benchmarks.
func listScenarios(f *cmdutil.Factory, ctx context.Context) error {
	all, err := scenarios(f, ctx)
	if err != nil {
		return err
	}
	rows := make([]scenario, len(all))
	for i, line := range all {
		rows[i].name, rows[i].measures, _ = strings.Cut(line, "\t")
	}
	return table.Print(table.Output{To: f.Out}, rows)
}

// scenario is a benchmark as a row of a table.
type scenario struct{ name, measures string }

// Header returns the columns.
func (scenario) Header() []table.Column { return table.Columns("scenario", "measures") }

// Row returns the cells.
func (s scenario) Row() []string { return []string{s.name, s.measures} }
