package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
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
			order := flags.order(cmd)
			if _, err := order.Cordon(time.Now()); err != nil {
				return err
			}
			return flags.drain(cmd.Context(), f, args, order)
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

// left is a step of a drain, or of giving up a node.
type left struct {
	Tasks []string
	Stays *drain.Staying
}

// drain begins drains, prints what the user must know about them, and waits for their ends.
func (d *drainFlags) drain(ctx context.Context, f *cmdutil.Factory, args []string, order drain.Order) error {
	reads, err := f.Client(ctx)
	if err != nil {
		return err
	}
	names, err := d.choice.names(ctx, reads, args)
	if err != nil {
		return err
	}
	body := map[string]any{"mode": order.Mode, "reason": order.Reason}
	if order.Deadline != nil {
		body["deadline"] = types.Duration(*order.Deadline)
	}
	if order.Grace != nil {
		body["grace"] = types.Duration(*order.Grace)
	}
	if !d.detach {
		return awaitDrained(ctx, f, names, body)
	}
	for _, node := range names {
		var begun drain.Staying
		if err := f.Change(ctx, http.MethodPost, cmdutil.NodePath(node, "drain"), body, &begun); err != nil {
			return err
		}
		tellStaying(f, node, &begun)
		fmt.Fprintln(f.Out, node)
	}
	return nil
}

// awaitDrained drains nodes and returns when all of them are empty. It prints the name of each when it is.
// Precondition: a drain was cancelled.
func awaitDrained(ctx context.Context, f *cmdutil.Factory, names []string, body any) error {
	c, err := f.API(ctx)
	if err != nil {
		return err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return types.Errorf(types.Internal, "drain: %w", err)
	}
	var mu sync.Mutex
	now, said := drain.Left{Tasks: make(map[string][]string)}, ""
	tell := func(node string, step left) {
		mu.Lock()
		defer mu.Unlock()
		if step.Stays != nil {
			tellStaying(f, node, step.Stays)
			return
		}
		if now.Tasks[node] = step.Tasks; len(step.Tasks) == 0 {
			delete(now.Tasks, node)
		}
		if text := leftText(now); text != said && text != "" {
			said = text
			f.ProgressLine("%s", text)
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	for _, node := range names {
		g.Go(func() error {
			path := cmdutil.NodePath(node, "drain") + "?wait=true"
			_, err := client.Long[struct{}](gctx, c, http.MethodPost, path, "application/json", bytes.NewReader(text), func(step left) { tell(node, step) })
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				fmt.Fprintln(f.Out, node)
			}
			return err
		})
	}
	err = g.Wait()
	if ctx.Err() != nil {
		f.ProgressLine("interrupted: the drain goes on: escher nodes shows how far it is, escher node uncordon %s ends it", strings.Join(names, " "))
	}
	return err
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
func tellStaying(f *cmdutil.Factory, node string, stays *drain.Staying) {
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
}

// someOf names the first five of a list.
func someOf(all []string) string { return words.List(all, 5) }
