package show

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/reasons"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

const describeHelp = `Shows everything about a task, job, reservation, node or shared policy: its
description, phase, held resources and policies, why a task waits, and what happened last
to one that was bound. -o yaml has all of it, in fields. The values of environment
variables are left out, because they may be secrets; --env shows them.

  escher describe web
  escher describe -l team=vision
  escher describe node-1
  escher describe web -o jsonpath={.phase}`

// Describable are the kinds that describe knows.
func Describable() []controlplane.Kind {
	return []controlplane.Kind{controlplane.Tasks, controlplane.Jobs, controlplane.Reservations, controlplane.Nodes}
}

// NewDescribe returns the command that describes an object.
func NewDescribe(f *cmdutil.Factory) *cobra.Command { return NewDescribeOf(f) }

// NewDescribeOf is NewDescribe for objects of some kinds; without kinds, for all objects and policies.
func NewDescribeOf(f *cmdutil.Factory, kinds ...controlplane.Kind) *cobra.Command {
	var env bool
	var labels selected
	cmd := &cobra.Command{
		Use:   "describe TASK|JOB|RESERVATION|NODE|POLICY|-l LABELS",
		Short: "Show everything about a task, job, reservation, node or shared policy",
		Long:  describeHelp,
		Args:  cmdutil.Exactly("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			client, err := f.Client(ctx)
			if err != nil {
				return err
			}
			if !labels.IsZero() {
				return labels.show(ctx, f, client, func(it cmdutil.Named) (shown, error) { return described(ctx, f, client, it, env) })
			}
			it, shared, err := findAny(ctx, client, args[0], Describable(), kinds)
			switch {
			case err != nil:
				return err
			case shared != "":
				return showPolicies(f, ctx, client, shared)
			}
			one, err := described(ctx, f, client, it, env)
			if err != nil {
				return err
			}
			return f.Show(one.value, it.ID, one.text)
		},
	}
	labels.add(cmd, kinds)
	cmd.Flags().BoolVar(&env, "env", false, "show the values of environment variables")
	return cmd
}

// described describes an object.
func described(ctx context.Context, f *cmdutil.Factory, client *controlplane.Client, it cmdutil.Named, env bool) (shown, error) {
	d := describing{f: f, client: client, env: env, now: time.Now()}
	var err error
	d.why, d.view, err = f.Explain(ctx, client, it, d.now)
	if err != nil && (it.Kind != controlplane.Nodes || !types.Is(err, types.Denied)) { // of a node, nothing of it is shown
		return shown{}, err
	}
	d.why.Closed = "" // escher why has it
	v, err := d.describe(ctx, it)
	if err != nil {
		return shown{}, err
	}
	return shown{v, func(w io.Writer) error { return v.Write(w) }}, nil
}

// description is a description: encoded by its fields, or as text.
type description interface{ Write(w io.Writer) error }

// describing is the input of descriptions.
type describing struct {
	f      *cmdutil.Factory
	client *controlplane.Client
	// why is the explanation of the object, and view what was read for it.
	why  reasons.Explained
	view *cluster.View
	// env shows the values of environment variables.
	env bool
	now time.Time
}

func (d *describing) describe(ctx context.Context, it cmdutil.Named) (description, error) {
	id := cluster.ID{Namespace: d.client.Namespace(), ID: it.ID}
	switch it.Kind {
	case controlplane.Tasks:
		return d.task(ctx, id)
	case controlplane.Jobs:
		return d.job(ctx, id)
	case controlplane.Reservations:
		return d.reservation(id)
	}
	return d.Node(it.ID)
}

// gone says that an object was deleted after it was found.
func gone(it cmdutil.Named) error {
	return types.Errorf(types.NotFound, "%s is not there any more: look again", it)
}
