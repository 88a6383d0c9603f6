package cli

import (
	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
)

// newWatchdog makes the command that an agent starts beside itself.
func newWatchdog(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:    watchdog.Subcommand + " CONFIG",
		Short:  "Kill what runs on a node by the deadline of its session; for an agent to call",
		Hidden: true,
		Args:   exactly("CONFIG"),
		// The configuration is one argument that looks like nothing else.
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return watchdog.Run(cmd.Context(), args[0], f.In, f.raw())
		},
	}
}
