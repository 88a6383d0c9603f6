package cmdutil

import (
	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/types"
)

// Exactly checks that there is exactly one argument for each name.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return types.Errorf(types.Invalid, "%s: is missing: %s", names[len(args)], Usage(cmd))
		case len(args) > len(names):
			return types.Errorf(types.Invalid, "argument: %q is one too many: %s", args[len(names)], Usage(cmd))
		}
		return nil
	}
}

// AtLeastOne checks that there is an argument.
func AtLeastOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return types.Errorf(types.Invalid, "%s: is missing: %s", name, Usage(cmd))
		}
		return nil
	}
}

func Usage(cmd *cobra.Command) string { return "usage: " + cmd.UseLine() }
