package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/container"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/events"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/node"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/resource"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/run"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/show"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// sameAs is the annotation of a command below a noun that is also a command of its own: its name.
const sameAs = "same-as"

// noun is a command such as escher task, with what can be done to its objects below it.
type noun struct {
	name, short string
	// example is one or more lines of the help.
	example string
	// kinds are those of its objects; argument is the word for one in a usage line.
	kinds    []controlplane.Kind
	argument string
	verbs    []verb
	// own makes commands that are below the noun alone.
	own []func(*cmdutil.Factory) *cobra.Command
}

// verb is a command below a noun; make makes the command that it is the same as.
type verb struct {
	name string
	make func(*cmdutil.Factory) *cobra.Command
}

// nouns lists the nouns. All but node and resource have no commands of their own.
func nouns() []noun {
	return []noun{
		{"task", "Run, list and look into tasks", "  escher task ls\n  escher task describe web", []controlplane.Kind{controlplane.Tasks}, "TASK", []verb{
			{"run", run.NewRun}, {"ls", show.NewPs}, {"logs", run.NewLogs}, {"attach", run.NewAttach}, {"exec", container.NewExec}, {"cp", container.NewCp},
			{"events", events.NewEvents}, {"wait", run.NewWait}, {"stop", run.NewStop}, {"kill", container.NewKill}, {"rerun", run.NewRerun}, {"rm", run.NewRm},
			{"port-forward", container.NewPortForward},
		}, nil},
		{"job", "Submit and list jobs", "  escher job ls\n  escher job submit -f job.yaml", []controlplane.Kind{controlplane.Jobs}, "JOB", []verb{
			{"submit", run.NewSubmit}, {"ls", show.NewJobs}, {"logs", run.NewLogs}, {"events", events.NewEvents}, {"wait", run.NewWait}, {"stop", run.NewStop}, {"rerun", run.NewRerun}, {"rm", run.NewRm},
		}, nil},
		{"node", "", "", []controlplane.Kind{controlplane.Nodes}, "NODE", []verb{{"ls", node.NewNodes}, {"gpus", node.NewGPUs}}, nil},
		{"resource", "Set, list and remove ephemeral resources", "  escher resource ls\n  escher resource describe slot", nil, "", []verb{{"set", resource.NewSetResource}, {"ls", resource.NewResources}},
			[]func(*cmdutil.Factory) *cobra.Command{resource.NewDescribeResource, resource.NewRemoveResource}},
		{"reservation", "Create, list and give up reservations", "  escher reservation ls\n  escher reservation rm train", []controlplane.Kind{controlplane.Reservations}, "RESERVATION", []verb{
			{"create", resource.NewReserve}, {"ls", resource.NewReservations}, {"rm", resource.NewUnreserve},
		}, nil},
	}
}

// addNouns adds the nouns to the commands below root, some of which are there.
func addNouns(f *cmdutil.Factory, root *cobra.Command) {
	for _, n := range nouns() {
		cmd, _, err := root.Find([]string{n.name})
		if err != nil || cmd == root {
			cmd = n.command()
			root.AddCommand(cmd)
		}
		for _, own := range n.own {
			cmd.AddCommand(own(f))
		}
		for _, v := range n.verbs {
			cmd.AddCommand(below(v.make(f), v.name, ""))
		}
		if len(n.kinds) > 0 {
			describe, why := show.NewDescribeOf(f, n.kinds...), show.NewWhyOf(f, n.kinds...)
			for _, sub := range []*cobra.Command{describe, why} {
				for _, text := range []*string{&sub.Short, &sub.Long} {
					*text = strings.Replace(*text, "task, job, reservation, node or shared policy", n.name, 1)
				}
			}
			cmd.AddCommand(below(describe, "describe", n.argument), below(why, "why", n.argument))
		}
	}
}

// command makes the command of a noun.
func (n noun) command() *cobra.Command {
	return &cobra.Command{
		Use: n.name, Short: n.short, Long: n.short + ".\n\n" + n.example, GroupID: "Nouns",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if other := cmdutil.OtherCommands()[n.name+" "+args[0]]; other != "" {
					return types.Errorf(types.Invalid, "command: %s %q is unknown: %s", n.name, args[0], other)
				}
				return types.Errorf(types.Invalid, "command: %s %q is unknown: %s --help lists all", n.name, args[0], cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// below makes a command one below a noun, named name. argument replaces its arguments in the usage
// line, unless it is empty.
func below(cmd *cobra.Command, name, argument string) *cobra.Command {
	was, arguments, _ := strings.Cut(cmd.Use, " ")
	if cmd.Annotations == nil {
		cmd.Annotations = make(map[string]string)
	}
	cmd.Annotations[sameAs] = was
	if argument != "" {
		arguments = argument
	}
	cmd.Use = strings.TrimSpace(name + " " + arguments)
	return cmd
}
