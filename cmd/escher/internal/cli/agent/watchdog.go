//go:build linux

package agent

import (
	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
)

// NewWatchdog returns the command of the watchdog that an agent starts.
func NewWatchdog(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:    watchdog.Subcommand + " CONFIG",
		Short:  "Kill what runs on a node by the deadline of its session; for an agent to call",
		Hidden: true,
		Args:   cmdutil.Exactly("CONFIG"),
		// The configuration is one argument, not flags.
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return watchdog.Run(cmd.Context(), args[0], f.In, f.Raw())
		},
	}
}
