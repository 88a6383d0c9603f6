package cmdutil

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/types"
)

// FlagError says what is wrong with a flag, and what to write instead.
func FlagError(cmd *cobra.Command, err error) error {
	if own, ok := errors.AsType[*types.Error](err); ok {
		return own
	}
	if v, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		name, value := v.GetFlag().Name, v.GetValue()
		switch v.GetFlag().Value.Type() {
		case "duration":
			return types.Errorf(types.Invalid, "%s: %q is no duration, or too long a one: write it with a unit, such as 5s, 10m or 2h", name, value)
		case "int", "int64":
			return types.Errorf(types.Invalid, "%s: %q is no number: write a whole one", name, value)
		case "bool":
			return types.Errorf(types.Invalid, "%s: %q is neither true nor false: write --%s, or leave it out", name, value, name)
		}
	}
	if missing, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if say := otherFlag(cmd, missing.GetSpecifiedName()); say != "" {
			return types.Errorf(types.Invalid, "%w: %s", err, say)
		}
		if cmd.Flags().Lookup("entrypoint") != nil { // it runs a program, which may have flags
			return types.Errorf(types.Invalid, "%w: %s --help lists the flags; write -- before a program that has flags", err, cmd.CommandPath())
		}
	}
	return types.Errorf(types.Invalid, "%w: %s --help lists the flags", err, cmd.CommandPath())
}
