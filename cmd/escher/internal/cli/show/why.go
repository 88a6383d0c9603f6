package show

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/reasons"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/types"
)

const whyHelp = `Explains the state of an object in one sentence, such as why it waits, and what to do
about it. Then it lists which nodes reject it and why, which nodes come nearest and what
they lack, which tasks hold or will provide that, and its place in the queue. The reasons
of the policies of its job come first. For a node, it says what can be placed there, or
why nothing can. For a shared policy, it prints what escher policies describe does.

-o wide shows all of it, -o json and yaml have it in fields.

  escher why train
  escher why -l team=vision
  escher why node-1`

// NewWhy returns the command that explains the state of an object.
func NewWhy(f *cmdutil.Factory) *cobra.Command { return NewWhyOf(f) }

// NewWhyOf is NewWhy for objects of some kinds; without kinds, for all objects and policies.
func NewWhyOf(f *cmdutil.Factory, kinds ...controlplane.Kind) *cobra.Command {
	var labels selected
	cmd := &cobra.Command{
		Use:   "why TASK|JOB|RESERVATION|NODE|POLICY|-l LABELS",
		Short: "Explain the state of a task, job, reservation, node or shared policy, such as why it waits",
		Long:  whyHelp,
		Args:  cmdutil.Exactly("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			client, err := f.Client(ctx)
			if err != nil {
				return err
			}
			if !labels.IsZero() {
				return labels.show(ctx, f, client, func(it cmdutil.Named) (shown, error) {
					one, err := explained(ctx, f, client, it)
					text := one.text
					one.text = func(w io.Writer) error {
						fmt.Fprintf(w, "%s:\n", it)
						return text(w)
					}
					return one, err
				})
			}
			// A reservation comes before a task of the same name, because other objects wait for
			// it.
			all := []controlplane.Kind{controlplane.Reservations, controlplane.Tasks, controlplane.Jobs, controlplane.Nodes}
			it, shared, err := findAny(ctx, client, args[0], all, kinds)
			switch {
			case err != nil:
				return err
			case shared != "":
				return showPolicies(f, ctx, client, shared)
			}
			one, err := explained(ctx, f, client, it)
			if err != nil {
				return err
			}
			return f.Show(one.value, it.ID, one.text)
		},
	}
	labels.add(cmd, kinds)
	return cmd
}

// explained explains the state of an object.
func explained(ctx context.Context, f *cmdutil.Factory, client *controlplane.Client, it cmdutil.Named) (shown, error) {
	done := f.Progress("reading the cluster")
	defer done()
	now := time.Now()
	explained, view, err := f.Explain(ctx, client, it, now)
	if err == nil && (explained.Cause == why.Stopping || explained.Cause == why.Evicting) {
		addGone(ctx, f, client, view, &explained, now)
	}
	return shown{explained, func(w io.Writer) error {
		for _, line := range explained.Sentences(f.Format == table.Wide, howto.Say) {
			fmt.Fprintln(w, table.Line(line))
		}
		return nil
	}}, err
}

// addGone notes when a task that is being stopped or evicted is killed, if its node says so.
func addGone(ctx context.Context, f *cmdutil.Factory, client *controlplane.Client, view *cluster.View, e *reasons.Explained, now time.Time) {
	t := view.Task(cluster.ID{Namespace: e.Namespace, ID: e.ID})
	rows := []TaskRow{NewTaskRow(controlplane.TaskState{ID: e.ID, Task: t.Info.V.Full(), Status: t.Status.V.Full()}, now)}
	addGoneBy(ctx, f, client, rows, now)
	if at := rows[0].GoneBy; at != nil {
		note := types.Textf("It is killed in %s at the latest, at %s UTC.", why.InWords(at.Sub(now)), at.UTC().Format(time.TimeOnly))
		e.Notes = append([]types.Text{note}, e.Notes...)
	}
}
