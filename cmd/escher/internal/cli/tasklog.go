package cli

import (
	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/dev"
	"github.com/escher-sched/escher/nodeagent/tasklog"
)

// newTaskLog makes the command that containerd starts beside each container.
func newTaskLog(*Factory) *cobra.Command {
	return &cobra.Command{
		Use:    dev.LoggerSubcommand + " CONFIG",
		Short:  "Write the output of a container to a file; for containerd to call",
		Hidden: true,
		Args:   exactly("CONFIG"),
		// The configuration is one argument that looks like nothing else.
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return tasklog.Run(args[0]) },
	}
}
