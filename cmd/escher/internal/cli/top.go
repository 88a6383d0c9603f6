package cli

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/nodeagent/nodeapi"
	"github.com/escher-sched/escher/types"
)

const topHelp = `Shows what nodes have, what is in use of it (allocated/capacity) and what the
containers really use, and the tasks of the namespace by what they use. On a
terminal it goes on until interrupted; else it measures for half a second, and
prints once. Where a - stands, the agent of the node does not answer.`

// How often usage is asked for, and how long is measured when it is asked for once.
const (
	topEvery  = 2 * time.Second
	topOnce   = 500 * time.Millisecond
	topAnswer = 2 * time.Second
)

// newTop makes the command that shows usage.
func newTop(f *Factory) *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:   "top [nodes|tasks]",
		Short: "Show what nodes and tasks use, as it changes",
		Long:  topHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && args[0] != "nodes" && args[0] != "tasks" {
				return types.Errorf(types.Invalid, "argument: %q is unknown: %s", args[len(args)-1], usage(cmd))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			t := &top{f: f, what: first(args...), view: cluster.New(), synced: make(chan struct{})}
			_, _, terminal := f.terminalSize(f.Out)
			return t.run(cmd.Context(), once || !terminal || f.format.Encoded() || f.format == table.Name)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "print once, also on a terminal")
	return cmd
}

// top shows usage.
type top struct {
	f *Factory
	// what is nodes, tasks, or empty for both.
	what   string
	synced chan struct{}

	mu   sync.Mutex
	view *cluster.View
	// before and latest are the last two samples.
	before, latest sample
}

// sample is what containers used at a time, by node; a node that does not answer is
// not in it.
type sample struct {
	at    time.Time
	nodes map[string][]nodeapi.Usage
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
		kinds := append(stateKinds(), controlplane.Tasks, controlplane.Statuses, controlplane.Jobs)
		opts := controlplane.ListWatchOptions{Prefix: controlplane.Root, Skip: skipOthers(client.Namespace(), kinds)}
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
			return t.draw(ctx)
		}
		err := t.measure(ctx, topOnce)
		over = err == nil
		stop()
		return err
	})
	if err := g.Wait(); err != nil || !once {
		return err
	}
	return t.print()
}

// take notes changes.
func (t *top) take(u controlplane.Update) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range u.Events {
		if _, _, err := t.view.Apply(e); err != nil {
			return err
		}
	}
	t.view.Reached(u.Revision)
	select {
	case <-t.synced:
	default:
		close(t.synced)
	}
	return nil
}

// measure takes two samples, that far apart.
func (t *top) measure(ctx context.Context, apart time.Duration) error {
	t.sample(ctx)
	if err := sleep(ctx, apart); err != nil {
		return err
	}
	t.sample(ctx)
	return ctx.Err()
}

// sample asks all live nodes what their containers use.
func (t *top) sample(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, topAnswer)
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
	s := sample{nodes: make(map[string][]nodeapi.Usage)}
	// Which did not answer is seen by what is not there.
	_ = t.f.eachNode(ctx, alive, func(ctx context.Context, c *nodeapi.Client) error {
		used, err := c.Usage(ctx)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			s.nodes[c.Node()] = used
		}
		return err
	})
	s.at = time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.before, t.latest = t.latest, s
}

// draw shows usage until ctx is done.
func (t *top) draw(ctx context.Context) error {
	s := &screen{to: t.f.Out, height: func() int {
		_, height, _ := t.f.terminalSize(t.f.Out)
		return height
	}}
	defer s.close()
	if err := t.measure(ctx, topOnce); err != nil {
		return err
	}
	for {
		s.draw(t.lines())
		if err := sleep(ctx, topEvery); err != nil {
			return err
		}
		t.sample(ctx)
	}
}

// lines are the tables as text.
func (t *top) lines() []string {
	out := t.f.output()
	nodes, tasks := t.rows()
	switch t.what {
	case "nodes":
		return table.Lines(out, nodes)
	case "tasks":
		return table.Lines(out, tasks)
	}
	return append(append(table.Lines(out, nodes), ""), table.Lines(out, tasks)...)
}

// print prints once, in the format that was asked for.
func (t *top) print() error {
	nodes, tasks := t.rows()
	switch {
	case t.what == "nodes":
		return print(t.f, nodes)
	case t.what == "tasks", t.f.format == table.Name:
		return print(t.f, tasks)
	case t.f.format.Encoded():
		return table.Encode(t.f.Out, t.f.format, struct {
			Nodes []topNode `json:"nodes"`
			Tasks []topTask `json:"tasks"`
		}{nodes, tasks})
	}
	for _, line := range t.lines() {
		fmt.Fprintln(t.f.Out, line)
	}
	return nil
}
