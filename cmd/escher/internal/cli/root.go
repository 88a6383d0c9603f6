package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/agent"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/auth"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/container"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/events"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/file"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/history"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/images"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/namespace"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/node"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/policy"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/resource"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/run"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/secret"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/server"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/show"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/top"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/types"
)

const rootHelp = `Escher runs containers on the machines of a cluster. It places them by policies, and by
resources that applications create while they run.

  escher dev                                        a cluster on this machine
  escher run busybox:1.36 -- echo hello             a task: its output, and its exit code
  escher run --cpu 2 --memory 4Gi --gpu 1 train:3   with resources of its own
  escher run --gang 4 --spread rack train:3         four tasks, all at once or none
  escher ps                                         what runs, and why the rest waits
  escher logs -f web                                its output
  escher why train                                  why it waits, and what to do about it
  escher stop web                                   its end

A command finds the cluster by its flags, --endpoints or --dir, else by the
environment, else by the context in use (escher context), else in
~/.local/share/escher, where escher dev keeps it. Inside a task it uses the task's
socket, ESCHER_SOCKET: set-resource, state, nodes, resources, ps, jobs, run, submit,
wait, stop work in there.

run, wait, logs -f, submit --attach and exec exit with the code of the task; with 125 if
escher fails, 126 if the container cannot run the command, 127 if it does not have it.
All other commands exit with:
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
			if like := slices.Sorted(slices.Values(cmd.SuggestionsFor(args[0]))); len(like) > 0 {
				remedy = "did you mean " + strings.Join(like, " or ") + "?"
			}
			if other := cmdutil.OtherCommands()[args[0]]; other != "" {
				remedy = other
			}
			return types.Errorf(types.Invalid, "command: %q is unknown: %s", args[0], remedy)
		},
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SuggestionsMinimumDistance = 2
	cmd.SetIn(f.In)
	cmd.SetOut(f.Out)
	cmd.SetErr(f.Err)
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		cmdutil.PrintUsage(cmd, cmd.OutOrStdout())
		return nil
	})
	cmd.SetFlagErrorFunc(cmdutil.FlagError)
	cmd.Flags().SetInterspersed(false) // the flags of an unknown command are unknown, too
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.Given.Dir, "dir", "", "directory of the cluster (ESCHER_DIR; default ~/.local/share/escher)")
	flags.StringVar(&f.Given.Server, "server", "", "address of the HTTP API: https://HOST:PORT, or unix:///PATH on the machine of a server (ESCHER_SERVER; the token in ESCHER_TOKEN)")
	f.AddEndpointFlags(flags)
	flags.StringVar(&f.Given.Context, "context", "", "context that names the cluster: see escher context (ESCHER_CONTEXT)")
	flags.StringVarP(&f.Given.Namespace, "namespace", "n", "", "namespace (ESCHER_NAMESPACE; default \"default\")")
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
	cmd.AddGroup(&cobra.Group{ID: "Nouns", Title: "By noun, the same commands (escher task ls is escher ps):"})
	addNouns(f, cmd)
	cmd.SetHelpCommandGroupID("Other")
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
		{"Run", []func(*cmdutil.Factory) *cobra.Command{run.NewRun, run.NewSubmit, file.NewApply, file.NewPlan, run.NewStop, container.NewKill, run.NewRerun, run.NewRm, run.NewDelete, file.NewSchema, file.NewExplain, file.NewConvert}},
		{"Look", []func(*cmdutil.Factory) *cobra.Command{show.NewPs, show.NewJobs, show.NewWhy, show.NewDescribe, show.NewGet, run.NewLogs, run.NewWait, run.NewAttach, container.NewExec, container.NewCp, container.NewPortForward, events.NewEvents, top.NewTop, history.NewHistory, history.NewUsage, history.NewLog}},
		{"Resources", []func(*cmdutil.Factory) *cobra.Command{node.NewNodes, node.NewNode, node.NewGPUs, resource.NewResources, resource.NewSetResource, resource.NewState, resource.NewReserve, resource.NewUnreserve, resource.NewReservations, policyCommands, namespace.NewNamespace}},
		{"Images", []func(*cmdutil.Factory) *cobra.Command{images.NewImage, images.NewPull}},
		{"Clusters", []func(*cmdutil.Factory) *cobra.Command{server.NewDev, server.NewServer, agent.NewAgent, server.NewAdmin, server.NewAudit, server.NewBench, cmdutil.NewContext, auth.NewLogin, auth.NewAuth, secret.NewSecret}},
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
