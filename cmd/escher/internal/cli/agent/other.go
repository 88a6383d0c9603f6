//go:build !linux

// Package agent has the commands of agents, which run on Linux alone.
package agent

import (
	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
)

// NewAgent returns the command that would run an agent.
func NewAgent(*cmdutil.Factory) *cobra.Command {
	return cmdutil.OnLinux("agent", "Run the agent of a machine")
}

// NewNodeDoctor returns the command that would look at a machine.
func NewNodeDoctor(*cmdutil.Factory) *cobra.Command {
	return cmdutil.OnLinux("doctor", "Find what would go wrong on this machine")
}

// NewWatchdog returns the command that would watch an agent.
func NewWatchdog(*cmdutil.Factory) *cobra.Command {
	cmd := cmdutil.OnLinux("watchdog", "Stop the tasks of an agent")
	cmd.Hidden = true
	return cmd
}
