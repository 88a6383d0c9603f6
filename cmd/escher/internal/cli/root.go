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

A command finds the cluster by its flags, --endpoints or --dir, else by the
environment, else by the context in use (escher context), else in
~/.local/share/escher, where escher dev keeps it. Inside a task it uses the task's
socket, ESCHER_SOCKET: set-resource, state, nodes, resources, run, submit, wait, stop
work in there.

Exit codes, but for commands that end with a task, which have that of the task:
`

// newRoot makes the whole command line.
func newRoot(f *Factory) *cobra.Command {
	f.format, f.color = table.Table, colorAuto
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
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SuggestionsMinimumDistance = 2
	cmd.SetIn(f.In)
	cmd.SetOut(f.Out)
	cmd.SetErr(f.Err)
	cmd.SetFlagErrorFunc(flagError)
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.dir, "dir", "", "directory of the cluster (ESCHER_DIR; default ~/.local/share/escher)")
	f.addEndpointFlags(flags)
	flags.StringVar(&f.contextName, "context", "", "context that names the cluster: see escher context (ESCHER_CONTEXT)")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace (ESCHER_NAMESPACE; default \"default\")")
	flags.VarP(&f.format, "output", "o", "table, wide, json, yaml, name or jsonpath=TEMPLATE")
	flags.Var(&f.color, "color", "auto, always or never; NO_COLOR is obeyed")
	for _, s := range sections() {
		cmd.AddGroup(&cobra.Group{ID: s.title, Title: s.title + ":"})
		for _, add := range s.make {
			sub := add(f)
			sub.GroupID = s.title
			cmd.AddCommand(sub)
		}
	}
	cmd.SetHelpCommandGroupID("Other")
	f.addCompletion(cmd)
	return cmd
}

// section is commands that are listed together.
type section struct {
	title string
	make  []func(*Factory) *cobra.Command
}

// sections lists what makes the commands.
func sections() []section {
	return []section{
		{"Run", []func(*Factory) *cobra.Command{newRun, newSubmit, newApply, newPlan, newStop, newRm, newSchema}},
		{"Look", []func(*Factory) *cobra.Command{newPs, newJobs, newWhy, newDescribe, newLogs, newWait, newExec, newCp, newEvents, newTop}},
		{"Resources", []func(*Factory) *cobra.Command{newNodes, newNode, newGPUs, newResources, newSetResource, newState, newReserve, newUnreserve, newReservations, newPolicies, newNamespace}},
		{"Images", []func(*Factory) *cobra.Command{newImage, newPull}},
		{"Clusters", []func(*Factory) *cobra.Command{newDev, newServer, newAgent, newAdmin, newAudit, newBench, newContext}},
		{"Other", []func(*Factory) *cobra.Command{newCompletion, newVersion, newWatchdog}},
	}
}

// exitCodes lists the table of exit codes.
func exitCodes() string {
	var b strings.Builder
	for _, c := range types.ExitCodes() {
		fmt.Fprintf(&b, "  %3d  %s: %s\n", c.Code, c.Name, c.Meaning)
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
