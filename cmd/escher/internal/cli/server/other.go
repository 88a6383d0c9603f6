//go:build !linux

package server

import (
	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
)

// NewDev returns the command that would run a cluster on this machine.
func NewDev(*cmdutil.Factory) *cobra.Command {
	return cmdutil.OnLinux("dev", "Run a cluster on this machine")
}

// NewServer returns the command that would run a server.
func NewServer(*cmdutil.Factory) *cobra.Command {
	return cmdutil.OnLinux("server", "Run a server of a cluster")
}

// NewBench returns the command that would measure.
func NewBench(*cmdutil.Factory) *cobra.Command { return cmdutil.OnLinux("bench", "Measure Escher") }
