package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/types"
)

const rootHelp = `Escher places tasks by resources that applications create at run time.

  escher dev                              a cluster on this machine
  escher run -d --request x=1 IMAGE       a task that waits for x
  escher set-resource x 1 --node node-1   create x: the task runs there
  escher why TASK                         why a task waits

A command finds the cluster by --dir, ESCHER_DIR or ~/.local/share/escher, the
directory that escher dev was given. Inside a task it uses the task's socket,
ESCHER_SOCKET: set-resource, state, nodes, resources, run, wait and stop work in
there.

Exit codes: 0 success; that of the task for run, wait and logs -f; else
`

// newRoot makes the whole command line.
func newRoot(f *Factory) *cobra.Command {
	f.format = table.Table
	cmd := &cobra.Command{
		Use:           "escher",
		Short:         "A scheduler whose policies are made of ephemeral resources",
		Long:          rootHelp + exitCodes(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			remedy := "escher --help lists all"
			if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
				remedy = "did you mean " + strings.Join(like, " or ") + "?"
			}
			return types.Errorf(types.Invalid, "command: %q is unknown: %s", args[0], remedy)
		},
	}
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.SuggestionsMinimumDistance = 2
	cmd.SetIn(f.In)
	cmd.SetOut(f.Out)
	cmd.SetErr(f.Err)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return types.Errorf(types.Invalid, "%w: %s --help lists the flags", err, cmd.CommandPath())
	})
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.dir, "dir", "", "directory of the cluster (ESCHER_DIR; default ~/.local/share/escher)")
	flags.StringVar(&f.endpoint, "endpoint", "", "etcd to use instead of that of the directory (ESCHER_ENDPOINT)")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace (ESCHER_NAMESPACE; default \"default\")")
	flags.VarP(&f.format, "output", "o", "table, wide, json or yaml")
	for _, add := range commands() {
		cmd.AddCommand(add(f))
	}
	return cmd
}

// commands lists what makes the commands.
func commands() []func(*Factory) *cobra.Command {
	return []func(*Factory) *cobra.Command{
		newDev, newRun, newPs, newLogs, newWait, newStop,
		newNodes, newResources, newSetResource, newState,
		newReserve, newUnreserve, newReservations,
		newWhy, newAudit, newBench, newImage, newVersion, newTaskLog,
	}
}

// exitCodes lists the table of error classes.
func exitCodes() string {
	classes := types.Classes()
	sortBy(classes, types.Class.ExitCode)
	var b strings.Builder
	for _, c := range classes {
		fmt.Fprintf(&b, "  %d  %s\n", c.ExitCode(), c)
	}
	return b.String()
}

// exactly checks that there is one argument for each name.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return types.Errorf(types.Invalid, "%s: is missing: %s", names[len(args)], usage(cmd))
		case len(args) > len(names):
			return types.Errorf(types.Invalid, "argument: %q is one too many: %s", args[len(names)], usage(cmd))
		}
		return nil
	}
}

// atLeastOne checks that there is an argument.
func atLeastOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return types.Errorf(types.Invalid, "%s: is missing: %s", name, usage(cmd))
		}
		return nil
	}
}

func usage(cmd *cobra.Command) string { return "usage: " + cmd.UseLine() }
