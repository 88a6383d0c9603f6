package cmdutil

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/labels"
	"github.com/escher-sched/escher/types/words"
)

// Selection is the flag --selector, which selects tasks and jobs, or nodes, by their labels. An object
// must meet what each flag says, if it is given several times.
type Selection struct {
	labels.Selector
	// kind is the type of the flag, which its completion goes by.
	kind string
}

// The types of the flag.
const (
	TaskLabels = "labels"
	NodeLabels = "node-labels"
)

// AddSelector adds the flag to a command. kind is TaskLabels or NodeLabels.
func (s *Selection) AddSelector(cmd *cobra.Command, kind, usage string) {
	s.kind = kind
	cmd.Flags().VarP(s, "selector", "l", usage+" with these `labels`, such as team=vision,stage!=dev")
}

// Set parses a value of the flag.
func (s *Selection) Set(text string) error {
	// A value is checked by itself first: the error quotes what the user has written.
	sel, err := labels.Parse("selector", text)
	if err == nil && !s.IsZero() {
		sel, err = labels.Parse("selector", s.String()+","+text)
	}
	s.Selector = sel
	return err
}

// Type is the type of the flag.
func (s *Selection) Type() string { return s.kind }

// Args lets a command take a selector instead of arguments, which check checks.
func (s *Selection) Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case s.IsZero():
			return check(cmd, args)
		case len(args) > 0:
			return types.Errorf(types.Invalid, "selector: %s is named too: give one of them", args[0])
		}
		return nil
	}
}

// Selects reports whether a map of labels is selected. Without the flag, all are.
func (s *Selection) Selects(m map[string]string) bool {
	return s.IsZero() || s.Matches(types.LabelsOf(m))
}

// TellNone tells that nothing is selected.
func (s *Selection) TellNone(f *Factory, what string) {
	f.Tell("%s", s.none(f, what))
}

// ErrNone is TellNone for a command that needs something.
func (s *Selection) ErrNone(f *Factory, what, remedy string) error {
	return types.Errorf(types.NotFound, "selector: %s: %s", s.none(f, what), remedy)
}

func (s *Selection) none(f *Factory, what string) string {
	if what != "node" {
		what += " in namespace " + f.Namespace()
	}
	return fmt.Sprintf("no %s matches %s", what, s)
}

// Targets returns the selected tasks that keep accepts. It returns a job instead of its tasks if all
// of those that keep accepts are selected.
func (s *Selection) Targets(ctx context.Context, client *controlplane.Client, keep func(*controlplane.TaskState) bool) ([]Named, error) {
	var tasks []controlplane.TaskState
	others := make(map[string]bool) // jobs with tasks that are not selected
	_, err := client.EachTask(ctx, func(t controlplane.TaskState) error {
		switch selected := s.Matches(t.Task.Labels); {
		case !keep(&t):
		case selected:
			tasks = append(tasks, t)
		default:
			others[t.Task.Job] = true
		}
		return nil
	})
	var out []Named
	seen := make(map[Named]bool)
	for _, t := range tasks {
		n := Named{Kind: controlplane.Tasks, ID: t.ID}
		if job := t.Task.Job; job != "" && !others[job] {
			n = Named{Kind: controlplane.Jobs, ID: job}
		}
		if !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out, err
}

// TellTargets tells what a command is about to take.
func (s *Selection) TellTargets(f *Factory, verb string, targets []Named) {
	texts := make([]string, len(targets))
	for i, t := range targets {
		texts[i] = t.String()
	}
	f.Tell("%s what matches %s: %s", verb, s, words.List(texts, 10))
}

// AddShowLabels adds the flag that shows labels in a table.
func AddShowLabels(cmd *cobra.Command, f *Factory) {
	cmd.Flags().BoolVar(&f.ShowLabels, "show-labels", false, "show the labels in the table")
}
