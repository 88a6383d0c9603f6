package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/agent"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/container"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/events"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/file"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/images"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/namespace"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/node"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/policy"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/resource"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/run"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/server"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/show"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/top"
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
func newRoot(f *cmdutil.Factory) *cobra.Command {
	f.Format, f.Color = table.Table, cmdutil.ColorAuto
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
	cmd.SetFlagErrorFunc(cmdutil.FlagError)
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.DirFlag, "dir", "", "directory of the cluster (ESCHER_DIR; default ~/.local/share/escher)")
	f.AddEndpointFlags(flags)
	flags.StringVar(&f.ContextName, "context", "", "context that names the cluster: see escher context (ESCHER_CONTEXT)")
	flags.StringVarP(&f.NamespaceFlag, "namespace", "n", "", "namespace (ESCHER_NAMESPACE; default \"default\")")
	flags.VarP(&f.Format, "output", "o", "table, wide, json, yaml, name or jsonpath=TEMPLATE")
	flags.Var(&f.Color, "color", "auto, always or never; NO_COLOR is obeyed")
	for _, s := range sections() {
		cmd.AddGroup(&cobra.Group{ID: s.title, Title: s.title + ":"})
		for _, add := range s.make {
			sub := add(f)
			sub.GroupID = s.title
			cmd.AddCommand(sub)
		}
	}
	cmd.SetHelpCommandGroupID("Other")
	completions{f}.addCompletion(cmd)
	return cmd
}

// section is a group of commands that are listed together.
type section struct {
	title string
	make  []func(*cmdutil.Factory) *cobra.Command
}

// sections lists the functions that make the commands.
func sections() []section {
	return []section{
		{"Run", []func(*cmdutil.Factory) *cobra.Command{run.NewRun, run.NewSubmit, file.NewApply, file.NewPlan, run.NewStop, run.NewRm, file.NewSchema}},
		{"Look", []func(*cmdutil.Factory) *cobra.Command{show.NewPs, show.NewJobs, show.NewWhy, show.NewDescribe, run.NewLogs, run.NewWait, container.NewExec, container.NewCp, events.NewEvents, top.NewTop}},
		{"Resources", []func(*cmdutil.Factory) *cobra.Command{node.NewNodes, node.NewNode, node.NewGPUs, resource.NewResources, resource.NewSetResource, resource.NewState, resource.NewReserve, resource.NewUnreserve, resource.NewReservations, policyCommands, namespace.NewNamespace}},
		{"Images", []func(*cmdutil.Factory) *cobra.Command{images.NewImage, images.NewPull}},
		{"Clusters", []func(*cmdutil.Factory) *cobra.Command{server.NewDev, server.NewServer, agent.NewAgent, server.NewAdmin, server.NewAudit, server.NewBench, cmdutil.NewContext}},
		{"Other", []func(*cmdutil.Factory) *cobra.Command{newCompletion, newVersion, agent.NewWatchdog}},
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

// policyCommands returns the commands about policies. describe shows tasks and reservations, too.
func policyCommands(f *cmdutil.Factory) *cobra.Command {
	cmd := policy.NewPolicies(f)
	cmd.AddCommand(show.NewPoliciesDescribe(f))
	return cmd
}
