package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/types"
)

// repairFlags say which key to repair.
type repairFlags struct {
	key, keep string
	yes       bool
}

func (r *repairFlags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&r.key, "repair", "", "repair this key: its value cannot be read, or is not the amount in use; asks first")
	flags.StringVar(&r.keep, "keep", "", "with --repair: write the value to this new file first")
	flags.BoolVarP(&r.yes, "yes", "y", false, "with --repair: do not ask")
}

// repair repairs the key, if the user answers yes.
func (r *repairFlags) repair(ctx context.Context, f *cmdutil.Factory, store controlplane.Store) error {
	plan, err := audit.PlanRepair(ctx, store, r.key, time.Now())
	if err != nil {
		return err
	}
	value := "It is missing"
	if plan.Revision != 0 {
		value = fmt.Sprintf("Its %d bytes were written at revision %d", len(plan.Value), plan.Revision)
	}
	fmt.Fprintf(f.Err, "%s: %s\n%s; %s writes such keys.\nThe repair %s.\n", plan.Key, plan.Why, value, plan.Writer(), plan.Does)
	if !r.yes {
		yes, err := f.Ask("Repair it?")
		if err != nil {
			return types.Errorf(types.Internal, "repair %s: read the answer: %w", r.key, err)
		}
		if !yes {
			return types.Errorf(types.Precondition, "repair %s: nothing was changed: answer y, or give --yes", r.key)
		}
	}
	if r.keep != "" {
		if err := keepValue(r.keep, plan.Value); err != nil {
			return err
		}
	}
	if err := plan.Perform(ctx, store); err != nil {
		return err
	}
	fmt.Fprintln(f.Out, plan.Key)
	return nil
}

// keepValue writes a value to a new file.
func keepValue(name string, value []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = file.Write(value)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return types.Errorf(types.Invalid, "keep: %q: %w: name a new file", name, err)
	}
	return nil
}

// validate checks the flags together.
func (r *repairFlags) validate(follow bool) error {
	switch {
	case r.key == "" && (r.keep != "" || r.yes):
		return types.Errorf(types.Invalid, "repair: is missing: name the key, or leave out --keep and --yes")
	case r.key != "" && follow:
		return types.Errorf(types.Invalid, "follow: a key is repaired once: leave out -f or --repair")
	}
	return nil
}
