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
	"github.com/escher-sched/escher/controlplane/drain"
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
			cordon, err := flags.order(cmd).Cordon(time.Now())
			if err != nil {
				return err
			}
			return flags.drain(cmd.Context(), f, args, cordon)
		},
	}
	flags.choice.Add(cmd)
	set := cmd.Flags()
	set.StringVar(&flags.mode, "mode", string(types.DrainFinish), "finish, move or stop")
	set.DurationVar(&flags.deadline, "deadline", drain.DefaultDeadline, "with --mode finish: how long tasks may go on; 0s means no limit")
	set.DurationVar(&flags.grace, "grace", 0, "time between the stop signal and the kill of tasks that must leave, instead of their own")
	set.StringVar(&flags.reason, "reason", "", "reason to show with the node")
	set.BoolVarP(&flags.detach, "detach", "d", false, "return at once, and not when all tasks have left")
	return cmd
}

// order returns the drain of the flags.
func (d *drainFlags) order(cmd *cobra.Command) drain.Order {
	o := drain.Order{Mode: types.DrainMode(d.mode), Reason: d.reason}
	if cmd.Flags().Changed("deadline") {
		o.Deadline = &d.deadline
	}
	if cmd.Flags().Changed("grace") {
		o.Grace = &d.grace
	}
	return o
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
	said := ""
	return drain.Wait(ctx, store, names, func(now drain.Left) {
		for _, node := range now.Empty {
			fmt.Fprintln(f.Out, node)
		}
		if text := leftText(now); text != said && text != "" {
			said = text
			f.ProgressLine("%s", text)
		}
	})
}

// leftText says what is left, empty if nothing is.
func leftText(now drain.Left) string {
	var texts []string
	for _, node := range slices.Sorted(maps.Keys(now.Tasks)) {
		texts = append(texts, fmt.Sprintf("%d left on %s: %s", len(now.Tasks[node]), node, someOf(now.Tasks[node])))
	}
	return strings.Join(texts, "; ")
}

// tellStaying prints which tasks of a node can run nowhere else, if they are moved, and which
// reservations keep their grants there.
func tellStaying(f *cmdutil.Factory, ctx context.Context, store controlplane.Store, node string, mode types.DrainMode) error {
	stays, err := drain.WhatStays(ctx, store, node, mode)
	if err != nil {
		return err
	}
	if len(stays.Tied) > 0 {
		tied := make([]string, len(stays.Tied))
		for i, t := range stays.Tied {
			tied[i] = t.String()
		}
		f.ProgressLine("can run on %s alone, and wait until it takes tasks again: %s", node, someOf(tied))
	}
	if len(stays.Granted) > 0 {
		f.ProgressLine("reservations keep what they were granted on %s: %s; escher unreserve gives one up", node, someOf(stays.Granted))
	}
	return nil
}

// someOf names the first five of a list.
func someOf(all []string) string { return words.List(all, 5) }
