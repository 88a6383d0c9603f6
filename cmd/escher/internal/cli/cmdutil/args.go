package cmdutil

import (
	"strings"

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
			if swapped := nounFirst(cmd, args); swapped != "" {
				return types.Errorf(types.Invalid, "argument: %q is one too many: did you mean %s?", args[len(names)], swapped)
			}
			return types.Errorf(types.Invalid, "argument: %q is one too many: %s", args[len(names)], Usage(cmd))
		}
		return nil
	}
}

// nounFirst returns the command line that describe job NAME stands for, if its first argument is a
// noun that has the command, too.
func nounFirst(cmd *cobra.Command, args []string) string {
	for _, noun := range cmd.Root().Commands() {
		if noun.Name() != strings.TrimSuffix(args[0], "s") {
			continue
		}
		for _, verb := range noun.Commands() {
			if verb.Name() == cmd.Name() {
				return verb.CommandPath() + " " + strings.Join(args[1:], " ")
			}
		}
	}
	return ""
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
