package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

// newWhy makes the command that explains where a task or reservation is.
func newWhy(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "why TASK|RESERVATION",
		Short: "Say why a task or reservation is where it is, above all why it waits",
		Args:  exactly("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := explain(cmd.Context(), f, args[0])
			if err != nil {
				return err
			}
			if f.format == table.JSON || f.format == table.YAML {
				return table.Encode(f.Out, f.format, e)
			}
			for _, line := range e.Lines() {
				fmt.Fprintln(f.Out, line)
			}
			return nil
		},
	}
}

// explain explains the reservation of that id, else the task.
func explain(ctx context.Context, f *Factory, name string) (scheduler.Explanation, error) {
	client, err := f.Client(ctx)
	if err != nil {
		return scheduler.Explanation{}, err
	}
	view, err := wholeView(ctx, client.Store())
	if err != nil {
		return scheduler.Explanation{}, err
	}
	ns := client.Namespace()
	e, err := scheduler.ExplainReservation(view, cluster.ID{Namespace: ns, ID: name}, time.Now())
	if !types.Is(err, types.NotFound) {
		return e, err
	}
	id, err := client.Resolve(ctx, name)
	if err != nil {
		return scheduler.Explanation{}, err
	}
	return scheduler.Explain(view, cluster.ID{Namespace: ns, ID: id}, time.Now())
}
