// Package top holds the command that shows the current usage of tasks and nodes.
package top

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/node"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/measured"
)

const topHelp = `Shows the capacity of nodes, the allocated part (allocated/capacity), the real usage of
their tasks, and the tasks of the namespace by usage. On a terminal it refreshes until
interrupted; elsewhere it prints once.

"cpu" is in cores. "cpu", "read/s" and "write/s" are the mean of the last seconds. "of
limit" is memory. "pressure" is the resource that processes waited for the largest part
of the last ten seconds. For a node, "used" is the usage of its tasks, and "machine" (-o
wide) that of all processes. A - stands for an unknown value: see docs/usage.md.

  escher top
  escher top tasks --sort memory
  escher top nodes --once`

// How often to ask for usage, how long a new task is measured, and how long an answer may take.
const (
	topEvery = 2 * time.Second
	topNew   = time.Second
)

// NewTop returns the command that shows usage.
func NewTop(f *cmdutil.Factory) *cobra.Command {
	var once bool
	var labels cmdutil.Selection
	sorting := sortDefault
	cmd := &cobra.Command{
		Use:   "top [nodes|tasks]",
		Short: "Show the usage of nodes and tasks, live",
		Long:  topHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && args[0] != "nodes" && args[0] != "tasks" {
				return types.Errorf(types.Invalid, "argument: %q is unknown: %s", args[len(args)-1], cmdutil.Usage(cmd))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			t := &top{f: f, what: cmdutil.First(args...), labels: labels, sort: sorting, view: cluster.New(), synced: make(chan struct{})}
			_, _, terminal := f.TerminalSize(f.Out)
			return t.run(cmd.Context(), once || !terminal || f.Format.Encoded() || f.Format == table.Name)
		},
	}
	labels.AddSelector(cmd, cmdutil.TaskLabels, "of top nodes the nodes, else the tasks")
	cmd.Flags().Var(&sorting, "sort", "sort by one of "+strings.Join(TopSorts(), ", ")+"; default: nodes by name, tasks by cpu")
	cmd.Flags().BoolVar(&once, "once", false, "print once, also on a terminal")
	return cmd
}

// top shows usage.
type top struct {
	f *cmdutil.Factory
	// what is nodes, tasks, or empty for both.
	what   string
	labels cmdutil.Selection
	synced chan struct{}

	sort topSort

	mu   sync.Mutex
	view *cluster.View
	// used has the last answers of nodes, without nodes that do not answer.
	used map[string]measured.Answer
}

// run follows the cluster and shows it.
func (t *top) run(ctx context.Context, once bool) error {
	client, err := t.f.Client(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	over := false
	g.Go(func() error {
		kinds := append(node.StateKinds(), controlplane.Tasks, controlplane.Statuses, controlplane.Jobs)
		opts := controlplane.ListWatchOptions{Prefix: controlplane.Root, Skip: cmdutil.SkipOthers(client.Namespace(), kinds)}
		err := controlplane.ListWatch(ctx, client.Store(), opts, t.take)
		if over {
			return nil
		}
		return err
	})
	g.Go(func() error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.synced:
		}
		if !once {
			return t.Draw(ctx)
		}
		err := t.measure(ctx)
		over = err == nil
		stop()
		return err
	})
	if err := g.Wait(); err != nil || !once {
		return err
	}
	return t.print()
}

// take applies changes.
func (t *top) take(u controlplane.Update) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range u.Events {
		_, _, _ = t.view.Apply(e) // unreadable values count as absent
	}
	t.view.Reached(u.Revision)
	select {
	case <-t.synced:
	default:
		close(t.synced)
	}
	return nil
}

// measure asks for usage, twice if a task is so new that its rates are unknown.
func (t *top) measure(ctx context.Context) error {
	if t.ask(ctx); !t.isNew() {
		return ctx.Err()
	}
	if err := supervise.Pause(ctx, topNew); err != nil {
		return err
	}
	t.ask(ctx)
	return ctx.Err()
}

// isNew reports whether some rates are unknown.
func (t *top) isNew() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.used {
		if slices.ContainsFunc(n.Tasks, func(u measured.Task) bool { return u.OverSeconds == 0 }) {
			return true
		}
	}
	return false
}

// ask asks all alive nodes for their usage.
func (t *top) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cmdutil.TopAnswer)
	defer cancel()
	var alive []string
	t.mu.Lock()
	for name, n := range t.view.Nodes {
		if n.Info.V != nil && n.Alive.V != nil {
			alive = append(alive, name)
		}
	}
	t.mu.Unlock()
	var mu sync.Mutex
	all := make(map[string]measured.Answer)
	// A missing entry shows that a node did not answer.
	_ = t.f.EachNode(ctx, alive, func(ctx context.Context, c *nodeapi.Client) error {
		used, err := c.Measured(ctx, time.Time{})
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			all[c.Node()] = used
		}
		return err
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used = all
}

// Draw shows usage until ctx is done.
func (t *top) Draw(ctx context.Context) error {
	s := &cmdutil.Screen{To: t.f.Raw(), Size: func() (int, int) {
		width, height, _ := t.f.TerminalSize(t.f.Out)
		return width, height
	}}
	defer s.Close()
	if err := t.measure(ctx); err != nil {
		return err
	}
	for {
		s.Draw(t.Lines())
		if err := supervise.Pause(ctx, topEvery); err != nil {
			return err
		}
		t.ask(ctx)
	}
}

// Lines are the tables as text.
func (t *top) Lines() []string {
	out := t.f.Output()
	nodes, tasks := t.rows()
	switch t.what {
	case "nodes":
		return table.Lines(out, nodes)
	case "tasks":
		return table.Lines(out, tasks)
	}
	return append(append(table.Lines(out, nodes), ""), table.Lines(out, tasks)...)
}

// print prints once, in the format of the flags.
func (t *top) print() error {
	nodes, tasks := t.rows()
	switch {
	case t.what == "nodes":
		return cmdutil.Print(t.f, nodes)
	case t.what == "tasks", t.f.Format == table.Name:
		return cmdutil.Print(t.f, tasks)
	case t.f.Format.Encoded():
		return table.Encode(t.f.Out, t.f.Format, struct {
			Nodes []topNode `json:"nodes"`
			Tasks []topTask `json:"tasks"`
		}{nodes, tasks})
	}
	for _, line := range t.Lines() {
		fmt.Fprintln(t.f.Raw(), line)
	}
	return nil
}
