package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

const drainHelp = `Binds no new tasks to nodes, and makes the tasks that are there leave. A server does it,
even after this command has ended, until escher node uncordon.

  --mode finish   tasks may end by themselves until the deadline; then they are moved
  --mode move     tasks are stopped at once, and wait for their next attempt elsewhere
  --mode stop     tasks are stopped for good

At most 32 tasks leave a node at a time. The command lists tasks that can run nowhere
else; they wait until the node takes tasks again. Reservations keep their grants there. A
second drain of a node replaces the first, but tasks that were told to end get no more
time, and tasks that were stopped stay stopped.

  escher node drain node-1                       tasks have an hour to end
  escher node drain node-1 --deadline 10m
  escher node drain node-1 --mode move -d        at once; and does not wait for it`

// drainFlags say how to drain nodes.
type drainFlags struct {
	choice   nodeChoice
	mode     string
	deadline time.Duration
	grace    time.Duration
	reason   string
	detach   bool
}

// newNodeDrain returns the command that drains nodes.
func newNodeDrain(f *cmdutil.Factory) *cobra.Command {
	var flags drainFlags
	cmd := &cobra.Command{
		Use:   "drain NODE...",
		Short: "Bind no new tasks to nodes, and move or end those that are there",
		Long:  drainHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			cordon, err := flags.cordon(cmd, time.Now())
			if err != nil {
				return err
			}
			return flags.drain(cmd.Context(), f, args, cordon)
		},
	}
	flags.choice.Add(cmd)
	set := cmd.Flags()
	set.StringVar(&flags.mode, "mode", string(types.DrainFinish), "finish, move or stop")
	set.DurationVar(&flags.deadline, "deadline", time.Hour, "with --mode finish: how long tasks may go on; 0s means no limit")
	set.DurationVar(&flags.grace, "grace", 0, "time between the stop signal and the kill of tasks that must leave, instead of their own")
	set.StringVar(&flags.reason, "reason", "", "reason to show with the node")
	set.BoolVarP(&flags.detach, "detach", "d", false, "return at once, and not when all tasks have left")
	return cmd
}

// cordon returns the cordon of the flags.
func (d *drainFlags) cordon(cmd *cobra.Command, now time.Time) (types.Cordon, error) {
	c := types.Cordon{Reason: d.reason, Drain: types.DrainMode(d.mode)}
	set := cmd.Flags()
	switch c.Drain {
	case types.DrainFinish, types.DrainMove, types.DrainStop:
	default:
		return c, types.Errorf(types.Invalid, "mode: %q is unknown: use finish, move or stop", d.mode)
	}
	switch {
	case d.deadline < 0:
		return c, types.Errorf(types.Invalid, "deadline: %s is negative: use 0 or more", d.deadline)
	case c.Drain != types.DrainFinish && set.Changed("deadline"):
		return c, types.Errorf(types.Invalid, "deadline: is for --mode finish: leave it out, as nothing is waited for")
	case d.grace < 0:
		return c, types.Errorf(types.Invalid, "grace: %s is negative: use 0 or more", d.grace)
	}
	if c.Drain == types.DrainFinish && d.deadline > 0 {
		c.DrainBy = now.Add(d.deadline).UnixNano()
	}
	if c.Grace = d.grace; set.Changed("grace") && d.grace == 0 {
		c.Grace = controlplane.NoGrace
	}
	return c, nil
}

// drain begins drains, prints what the user must know about them, and waits for their ends.
func (d *drainFlags) drain(ctx context.Context, f *cmdutil.Factory, args []string, cordon types.Cordon) error {
	client, err := f.Client(ctx)
	if err != nil {
		return err
	}
	names, err := d.choice.names(ctx, client, args)
	if err != nil {
		return err
	}
	for _, node := range names {
		if _, err := client.Cordon(ctx, node, cordon); err != nil {
			return err
		}
		if err := tellStaying(f, ctx, client.Store(), node, cordon.Drain); err != nil {
			return err
		}
		if d.detach {
			fmt.Fprintln(f.Out, node)
		}
	}
	if d.detach {
		return nil
	}
	err = awaitDrained(f, ctx, client.Store(), names)
	if ctx.Err() != nil {
		f.ProgressLine("interrupted: the drain goes on: escher nodes shows how far it is, escher node uncordon %s ends it", strings.Join(names, " "))
	}
	return err
}

// awaitDrained returns when all of the nodes are empty, and prints the name of each when it is.
// Precondition: a drain was cancelled.
func awaitDrained(f *cmdutil.Factory, ctx context.Context, store controlplane.Store, names []string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w := drainWait{f: f, left: make(map[string]map[string]struct{}), drained: make(map[string]bool)}
	for _, node := range names {
		w.left[node] = make(map[string]struct{})
	}
	opts := controlplane.ListWatchOptions{Prefix: controlplane.Root, Skip: func(key string) bool {
		k, ok := controlplane.Parse(key)
		return !ok || w.left[k.Node] == nil || k.Kind != controlplane.Bindings && k.Kind != controlplane.Cordons
	}}
	err := controlplane.ListWatch(ctx, store, opts, func(u controlplane.Update) error {
		if err := w.take(u); err != nil {
			return err
		}
		if len(w.left) == 0 {
			stop()
		}
		return nil
	})
	if len(w.left) == 0 {
		return nil
	}
	return err
}

// drainWait is a wait for the drains of nodes.
type drainWait struct {
	f *cmdutil.Factory
	// left are the bindings of nodes that are not empty yet, by node.
	left map[string]map[string]struct{}
	// drained reports which of the nodes are being drained.
	drained map[string]bool
	// said is the last text printed.
	said string
}

// take applies changes.
func (w *drainWait) take(u controlplane.Update) error {
	for _, e := range u.Events {
		k, _ := controlplane.Parse(e.Key)
		switch {
		case w.left[k.Node] == nil: // it was empty already
		case k.Kind == controlplane.Bindings && e.Delete:
			delete(w.left[k.Node], e.Key)
		case k.Kind == controlplane.Bindings:
			w.left[k.Node][e.Key] = struct{}{}
		default:
			var c types.Cordon
			if !e.Delete && !controlplane.Read(e.KV, &c) {
				c = types.Cordon{}
			}
			w.drained[k.Node] = c.Drain != types.DrainNone
		}
	}
	for _, node := range slices.Sorted(maps.Keys(w.left)) {
		switch {
		case len(w.left[node]) == 0:
			delete(w.left, node)
			fmt.Fprintln(w.f.Out, node)
		case !w.drained[node]:
			return types.Errorf(types.Precondition, "drain node %s: the drain was ended elsewhere before %s left", node, words.Count(len(w.left[node]), "task"))
		}
	}
	if text := w.Text(); text != w.said && text != "" {
		w.said = text
		w.f.ProgressLine("%s", text)
	}
	return nil
}

// Text says what is left, empty if nothing is.
func (w *drainWait) Text() string {
	var texts []string
	for _, node := range slices.Sorted(maps.Keys(w.left)) {
		tasks := boundTasks(slices.Sorted(maps.Keys(w.left[node])))
		texts = append(texts, fmt.Sprintf("%d left on %s: %s", len(tasks), node, someOf(tasks)))
	}
	return strings.Join(texts, "; ")
}

// someOf names the first five of a list.
func someOf(all []string) string { return words.List(all, 5) }
