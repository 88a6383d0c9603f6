package show

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
)

// selected is the flag of why and describe that selects tasks and jobs.
type selected struct{ cmdutil.Selection }

// add adds the flag to a command for objects of some kinds; without kinds, for those of all.
func (s *selected) add(cmd *cobra.Command, kinds []controlplane.Kind) {
	if len(kinds) == 0 || slices.Contains(kinds, controlplane.Tasks) || slices.Contains(kinds, controlplane.Jobs) {
		s.AddSelector(cmd, cmdutil.TaskLabels, "the tasks and jobs that have not ended, or else those that have,")
		cmd.Args = s.Args(cmd.Args)
	}
}

// targets returns the selected tasks and jobs: those that have not ended, or else the others.
func (s *selected) targets(ctx context.Context, client *controlplane.Client) ([]cmdutil.Named, error) {
	live, err := s.Targets(ctx, client, func(t *controlplane.TaskState) bool { return !t.Phase().Ended() })
	if err != nil || len(live) > 0 {
		return live, err
	}
	return s.Targets(ctx, client, func(*controlplane.TaskState) bool { return true })
}

// shown is an object to show: encoded by its fields, by its name, or as text.
type shown struct {
	value any
	text  func(w io.Writer) error
}

// show shows each selected object: a list if it is encoded, else one after the other.
func (s *selected) show(ctx context.Context, f *cmdutil.Factory, client *controlplane.Client, show func(cmdutil.Named) (shown, error)) error {
	targets, err := s.targets(ctx, client)
	if err != nil {
		return err
	}
	if len(targets) == 0 {
		s.TellNone(f, "task")
	}
	var values []any
	for i, target := range targets {
		one, err := show(target)
		if err != nil {
			return err
		}
		if f.Format.Encoded() {
			values = append(values, one.value)
			continue
		}
		if i > 0 && f.Format != table.Name {
			fmt.Fprintln(f.Out)
		}
		if err := f.Show(one.value, target.ID, one.text); err != nil {
			return err
		}
	}
	if f.Format.Encoded() {
		return table.EncodeList(f.Out, f.Format, values)
	}
	return nil
}
