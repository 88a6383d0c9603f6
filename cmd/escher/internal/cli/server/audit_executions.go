package server

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/execution"
	"github.com/escher-sched/escher/types/words"
)

// executionFlags say which logs of nodes to check.
type executionFlags struct {
	files []string
	skew  time.Duration
}

func (e *executionFlags) Add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&e.files, "exec-log", nil, "log of what a node ran, to check; repeat for several nodes")
	flags.DurationVar(&e.skew, "clock-skew", audit.DefaultClockSkew, "with --exec-log: how far the clocks of nodes may be apart")
}

// audit checks the logs. Invalid: a flag is missing, or one too many is given.
func (e *executionFlags) audit(f *cmdutil.Factory, follow bool) error {
	switch {
	case len(e.files) == 0:
		return types.Errorf(types.Invalid, "clock-skew: is for the logs of nodes: give them with --exec-log, or leave it out")
	case follow:
		return types.Errorf(types.Invalid, "follow: logs of nodes are checked as they are: leave out -f or --exec-log")
	case e.skew < 0:
		return types.Errorf(types.Invalid, "clock-skew: %s is negative: give 0 or more", e.skew)
	}
	var logs [][]execution.Record
	bad := 0
	for _, file := range e.files {
		var log []execution.Record
		n, err := execution.ReadFile(file, func(r execution.Record) { log = append(log, r) })
		if err != nil {
			return types.Errorf(types.ClassOf(err), "exec-log: %w", err)
		}
		logs = append(logs, log)
		bad += n
	}
	report := audit.CheckExecutions(logs, e.skew)
	report.BadLines = bad
	return printExecutions(f, &report)
}

func printExecutions(f *cmdutil.Factory, report *audit.Executions) error {
	switch {
	case f.Format.Encoded():
		if err := table.Encode(f.Out, f.Format, report); err != nil {
			return err
		}
	case len(report.Findings) == 0:
		fmt.Fprintf(f.Out, "no task ran twice at a time: %s of %s, %d of them running\n",
			words.Count(report.Executions, "execution"), words.Count(report.Tasks, "task"), report.Running)
	default:
		rows := make([]findingRow, len(report.Findings))
		for i, found := range report.Findings {
			rows[i] = findingRow{found}
		}
		if err := cmdutil.Print(f, rows); err != nil {
			return err
		}
	}
	if report.Unknown > 0 {
		f.Tell("when %d of them ended is not known, as their machine was started again: nothing is proved of those", report.Unknown)
	}
	if report.BadLines > 0 {
		f.Tell("left out, as torn or changed: %s of the logs", words.Count(report.BadLines, "line"))
	}
	found := counted{all: len(report.Findings)}
	return found.verdict()
}
