package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

const describeHelp = `Tells everything about a task, job, reservation or node: what it is, how far it is,
what it holds, which policies it has, and of a task that waits also why, of one that was bound what happened
to it last. -o yaml has all of it, in fields. The values of environment variables are
left out, as they may be secrets; --env shows them.`

// describable are the kinds that describe knows.
func describable() []controlplane.Kind {
	return []controlplane.Kind{controlplane.Tasks, controlplane.Jobs, controlplane.Reservations, controlplane.Nodes}
}

// newDescribe makes the command that tells everything about one thing.
func newDescribe(f *Factory) *cobra.Command {
	var env bool
	cmd := &cobra.Command{
		Use:   "describe TASK|JOB|RESERVATION|NODE|POLICY",
		Short: "Tell everything about a task, job, reservation or node",
		Long:  describeHelp,
		Args:  exactly("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			client, err := f.Client(ctx)
			if err != nil {
				return err
			}
			it, shared, err := findOrShared(ctx, client, args[0], describable()...)
			switch {
			case err != nil:
				return err
			case shared != "":
				return f.showPolicies(ctx, client, shared)
			}
			d := describing{f: f, client: client, env: env, now: time.Now()}
			var e scheduler.Explanation
			if e, d.view, err = scheduler.Why(ctx, client.Store(), it.subject(client.Namespace()), d.now); err != nil {
				return err
			}
			if d.why, err = explain(ctx, client, e, d.view, d.now); err != nil {
				return err
			}
			v, err := d.describe(ctx, it)
			if err != nil {
				return err
			}
			return f.show(v, it.id, func(w io.Writer) error { return v.write(w) })
		},
	}
	cmd.Flags().BoolVar(&env, "env", false, "show the values of environment variables")
	return cmd
}

// description is what is told: by its fields, or as text.
type description interface{ write(w io.Writer) error }

// describing is what descriptions are made of.
type describing struct {
	f      *Factory
	client *controlplane.Client
	// why is what is described, explained, and view what was read for that.
	why  explained
	view *cluster.View
	// env shows the values of environment variables.
	env bool
	now time.Time
}

func (d *describing) describe(ctx context.Context, it named) (description, error) {
	id := cluster.ID{Namespace: d.client.Namespace(), ID: it.id}
	switch it.kind {
	case controlplane.Tasks:
		return d.task(ctx, id)
	case controlplane.Jobs:
		return d.job(ctx, id)
	case controlplane.Reservations:
		return d.reservation(id)
	}
	return d.node(it.id)
}

// gone says that something is not there any more, since it was looked for.
func gone(it named) error {
	return types.Errorf(types.NotFound, "%s is not there any more: look again", it)
}
