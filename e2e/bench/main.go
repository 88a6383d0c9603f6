package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/signal"
	"syscall"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/e2e/bench/alphazero"
	"github.com/escher-sched/escher/e2e/bench/connected"
	"github.com/escher-sched/escher/e2e/bench/interference"
	"github.com/escher-sched/escher/e2e/bench/interleave"
	"github.com/escher-sched/escher/e2e/bench/order"
	"github.com/escher-sched/escher/e2e/bench/oversubscribe"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

// Main is the program escher-bench, which escher bench starts. It returns the exit code.
//
// Its commands: scenarios prints a line for each scenario, run reads a Config as JSON from in and
// measures, RoleCommand runs a part of a measured cluster, WorkCommand works in a container, and each
// VirtualCommand runs a workload in virtual time.
func Main(args []string, executable func() (string, error), in io.Reader, out, problems io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := obeyCommand(ctx, args, executable, in, out, problems)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return types.ExitInterrupted
	}
	fmt.Fprintln(problems, "escher:", err)
	return types.ClassOf(err).ExitCode()
}

func obeyCommand(ctx context.Context, args []string, executable func() (string, error), in io.Reader, out, problems io.Writer) error {
	switch {
	case len(args) == 1 && args[0] == "scenarios":
		for _, s := range Scenarios() {
			if _, err := fmt.Fprintf(out, "%s\t%s\n", s[0], s[1]); err != nil {
				return types.Errorf(types.Unavailable, "print scenarios: %w", err)
			}
		}
		return nil
	case len(args) == 1 && args[0] == "run":
		self, err := executable()
		if err != nil {
			return types.Errorf(types.Internal, "find this program: %w", err)
		}
		return measure(ctx, self, in, out, problems)
	case len(args) == 2 && args[0] == order.VirtualCommand:
		return order.RunVirtual(ctx, in, args[1])
	case len(args) == 2 && args[0] == interleave.VirtualCommand:
		return interleave.RunVirtual(ctx, in, args[1])
	case len(args) > 0 && args[0] == oversubscribe.WorkCommand:
		return oversubscribe.Work(ctx, args[1:])
	case len(args) > 0 && args[0] == interference.CoreCommand:
		return interference.OnCore(ctx, args[1:])
	case len(args) == 2 && args[0] == rig.RoleCommand:
		return rig.RunRole(ctx, args[1], in, out, parts())
	}
	return types.Errorf(types.Invalid, "command: this program is for escher bench to start: see escher bench --help")
}

// parts are the parts of clusters beyond those that rig has.
func parts() rig.Parts {
	all := alphazero.Parts()
	maps.Copy(all, connected.Parts())
	all[roleAPI] = apiPart
	return all
}

// measure runs the configured scenario and prints its rows.
func measure(ctx context.Context, self string, in io.Reader, out, problems io.Writer) error {
	var cfg rig.Config
	d := json.NewDecoder(in)
	d.DisallowUnknownFields()
	if err := d.Decode(&cfg); err != nil {
		return types.Errorf(types.Invalid, "configuration: %w: install the escher-bench of the same version as escher", err)
	}
	cfg.Self, cfg.Progress, cfg.Log = self, problems, zap.NewNop()
	rows, err := Run(ctx, cfg)
	write := rig.WriteTable
	if cfg.JSON {
		write = rig.WriteJSON
	}
	if len(rows) > 0 {
		if err := write(out, rows); err != nil {
			return types.Errorf(types.Unavailable, "print rows: %w", err)
		}
	}
	if err != nil {
		return err
	}
	return rig.Violated(rows)
}
