package resource

import (
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl/ahead"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/types"
)

// reserveAhead are the flags of a reservation for a time.
type reserveAhead struct {
	at    string
	lasts time.Duration
}

func (a *reserveAhead) add(flags *pflag.FlagSet) {
	flags.StringVar(&a.at, "at", "", "when it begins, such as 2026-12-01T08:00: until then only tasks that end before may use that capacity (default: now)")
	flags.DurationVar(&a.lasts, "for", 0, "with --at: how long it lasts, such as 2h")
}

func (a *reserveAhead) given() bool { return a.at != "" || a.lasts != 0 }

// reserve makes a reservation, at its time if one is given.
func (a *reserveAhead) reserve(cmd *cobra.Command, f *cmdutil.Factory, client *controlplane.Client, id string, r types.Reservation) error {
	if !a.given() {
		body := requests.Reserve{ID: id, Bundles: r.Bundles, Priority: r.Priority, Accumulate: r.Accumulate, Lost: r.Lost}
		return f.Change(cmd.Context(), http.MethodPost, f.Path("reservations"), body, nil)
	}
	return a.declare(cmd, f, client, id, r.Bundles)
}

// declare declares the policy that makes the reservation.
func (a *reserveAhead) declare(cmd *cobra.Command, f *cmdutil.Factory, client *controlplane.Client, id string, bundles []types.Bundle) error {
	switch {
	case a.at == "":
		return types.Errorf(types.Invalid, "for: %s is given without --at: say when it begins, or leave --for out", a.lasts)
	case a.lasts <= 0:
		return types.Errorf(types.Invalid, "for: is missing: say how long it lasts from --at on, such as --for 2h")
	}
	for _, other := range []string{"accumulate", "priority", "on-loss"} {
		if cmd.Flags().Changed(other) {
			return types.Errorf(types.Invalid, "%s: is given with --at: such a reservation comes before everything, and stays where it is: leave it out", other)
		}
	}
	at, ok := cmdutil.ParseMoment(a.at)
	switch {
	case !ok:
		return types.Errorf(types.Invalid, "at: %q is not a time: give one such as 2026-12-01T08:00", a.at)
	case !at.After(time.Now()):
		return types.Errorf(types.Invalid, "at: %s is past: give a later time, or leave --at and --for out", a.at)
	}
	if ids, err := client.IDs(cmd.Context(), controlplane.Reservations, id, 1); err != nil {
		return err
	} else if len(ids) > 0 && ids[0] == id {
		return types.Errorf(types.AlreadyExists, "reserve %s: there is a reservation of that name: give it up first, with escher unreserve %s, or choose another name", id, id)
	}
	if is, _, err := builtin.New(client).Policies(cmd.Context(), id); err == nil && (is.Job != "" || is.Policies[0].Kind != ahead.ReserveAhead{}.Kind()) {
		return types.Errorf(types.AlreadyExists, "reserve %s: there is a policy of that name, %s: choose another name", id, is.Policies[0].Kind)
	}
	p := ahead.ReserveAhead{At: at.UTC().Format(time.RFC3339), For: manifest.Duration(a.lasts)}
	for _, b := range bundles {
		p.Bundles = append(p.Bundles, manifest.BundleOf(b))
	}
	doc := map[string]any{"apiVersion": manifest.APIVersion, "kind": manifest.KindPolicy, "name": id, p.Kind(): p}
	return f.Apply(cmd.Context(), doc)
}

// isAhead reports whether a policy makes the reservation of an id.
func isAhead(ctx context.Context, client *controlplane.Client, id string) bool {
	is, _, err := builtin.New(client).Policies(ctx, id)
	return err == nil && is.Job == "" && len(is.Policies) > 0 && is.Policies[0].Kind == ahead.ReserveAhead{}.Kind()
}
