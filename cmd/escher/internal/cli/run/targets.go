package run

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// notANumber refuses a namespace given by -n that is a number: Slurm's -n is a number of tasks.
func notANumber(f *cmdutil.Factory) error {
	ns := f.Given.Namespace
	if _, err := strconv.ParseUint(ns, 10, 64); err != nil {
		return nil
	}
	return types.Errorf(types.Invalid, "namespace: %s is a number, and -n names a namespace: for %s tasks, write --count %s; for a namespace of that name, set ESCHER_NAMESPACE=%s", ns, ns, ns, ns)
}

// fileOr checks the arguments of a command that takes names, a file or a selector. names checks the
// names.
func fileOr(file *string, labels *cmdutil.Selection, names cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case *file != "" && !labels.IsZero():
			return types.Errorf(types.Invalid, "selector: --file is given too: give one of them")
		case !labels.IsZero():
			return labels.Args(names)(cmd, args)
		case *file != "" && len(args) > 0:
			return types.Errorf(types.Invalid, "file: names what to %s, and %s is named too: give one of them", cmd.Name(), args[0])
		case *file != "":
			return nil
		}
		return names(cmd, args)
	}
}

func addDryRun(cmd *cobra.Command, dry *bool) {
	cmd.Flags().BoolVar(dry, "dry-run", false, "only print what it would take")
}

// selected returns the tasks and jobs that a selector selects of those that keep accepts, and tells
// which they are. verb is what becomes of them, unless dry is set.
func selected(ctx context.Context, f *cmdutil.Factory, client *controlplane.Client, labels *cmdutil.Selection, dry bool, verb string,
	keep func(*controlplane.TaskState) bool) ([]cmdutil.Named, error) {
	targets, err := labels.Targets(ctx, client, keep)
	switch {
	case err != nil:
	case len(targets) == 0:
		labels.TellNone(f, "task")
	case !dry:
		labels.TellTargets(f, verb, targets)
	}
	return targets, err
}

// list prints the ids of targets.
func list(f *cmdutil.Factory, targets []cmdutil.Named) error {
	for _, t := range targets {
		if _, err := fmt.Fprintln(f.Out, t.ID); err != nil {
			return err
		}
	}
	return nil
}
