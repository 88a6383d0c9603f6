package cmdutil

import (
	"runtime"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/types"
)

// OnLinux returns a command of a program for another system, which says that it runs on Linux alone.
func OnLinux(name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short + ", on Linux alone", DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return types.Errorf(types.Precondition, "%s: runs on Linux alone, and this is %s: run it on a machine with Linux, and reach the cluster with escher login", name, runtime.GOOS)
		},
	}
}
