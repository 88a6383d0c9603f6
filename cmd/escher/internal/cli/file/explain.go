package file

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

const explainHelp = `Explains a document of files, or one of its fields: its type, what it means, its default
and its fields. A path begins with the kind of the document.

  escher explain job                    the fields of a job
  escher explain job.gang               a policy, with its parameters
  escher explain task.restart.when      a field of a field`

// NewExplain returns the command that explains the fields of files.
func NewExplain(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "explain FIELD",
		Short: "Explain a field of the files for submit, apply and plan",
		Long:  explainHelp,
		Args:  cmdutil.Exactly("FIELD"),
		RunE: func(_ *cobra.Command, args []string) error {
			x, err := manifest.Explain(args[0], library.KnownPolicies())
			if err != nil {
				return types.Errorf(types.ClassOf(err), "explain: %w", err)
			}
			return f.Show(x, x.Path, func(w io.Writer) error { return write(w, &x) })
		},
	}
}

// write writes an explanation as text.
func write(w io.Writer, x *manifest.Explanation) error {
	s := render.NewSheet(w)
	s.Line("Field", x.Path)
	s.Line("Type", x.Type)
	s.Line("Means", table.Line(x.Desc))
	if x.Required {
		s.Line("Needed", "yes")
	}
	if x.Default != "" {
		s.Line("Default", x.Default)
	}
	if len(x.Choices) > 0 {
		s.Line("One of", strings.Join(x.Choices, ", "))
	}
	if len(x.Examples) > 0 {
		s.Line("Examples", examples(x))
	}
	if len(x.Fields) > 0 {
		s.Group("Fields")
	}
	for i := range x.Fields {
		field := &x.Fields[i]
		s.Line("  "+strings.TrimPrefix(field.Path, x.Path+"."), note(field))
	}
	return s.End()
}

// note describes a field in a line.
func note(x *manifest.Explanation) string {
	notes := []string{x.Type}
	switch {
	case x.Required:
		notes = append(notes, "needed")
	case x.Default != "":
		notes = append(notes, "default: "+x.Default)
	}
	if len(x.Choices) > 0 {
		notes[0] = strings.Join(x.Choices, "|")
	}
	return x.Desc + " (" + strings.Join(notes, "; ") + ")"
}

func examples(x *manifest.Explanation) string {
	var out []string
	for _, one := range x.Examples {
		out = append(out, fmt.Sprint(one))
	}
	return strings.Join(out, ", ")
}
