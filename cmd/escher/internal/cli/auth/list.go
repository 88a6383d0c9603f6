package auth

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/issued"
)

// rightRow is a row of a list of rights.
type rightRow struct{ document.Right }

// Header returns the columns.
func (rightRow) Header() []table.Column {
	return table.Columns("name", "role", "namespaces", "subjects", "(allow)")
}

// Row returns the cells.
func (r rightRow) Row() []string {
	return []string{r.Name, string(r.Role), strings.Join(r.Namespaces, ","), strings.Join(issued.Each(r.Subjects, issued.SubjectText), ","), strings.Join(r.Allow, ",")}
}

func newLs(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List rights",
		Long: `Lists the rights that you have or may give. -o yaml prints them as documents of kind
Right, as a file has them.

  escher auth ls -o wide
  escher auth ls -o yaml    a file of them, for escher apply`,
		Args: cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.API(cmd.Context())
			if err != nil {
				return err
			}
			all, err := cmdutil.Pages[document.Right](cmd.Context(), c, "/v1/rights", nil)
			if err != nil {
				return err
			}
			if f.Format == table.YAML {
				return writeFile(f.Out, all)
			}
			rows := make([]rightRow, len(all))
			for i, r := range all {
				rows[i] = rightRow{r}
			}
			return cmdutil.Print(f, rows)
		},
	}
}

// rightFile is a right as a document of a file.
type rightFile struct {
	APIVersion string        `json:"apiVersion"`
	Kind       manifest.Kind `json:"kind"`
	manifest.Right
}

// writeFile writes rights as the documents of a file.
func writeFile(w io.Writer, all []document.Right) error {
	for i, r := range all {
		if i > 0 {
			fmt.Fprintln(w, "---")
		}
		stored := types.Right{Subjects: r.Subjects, Role: r.Role, Allow: r.Allow, Namespaces: r.Namespaces}
		if err := table.Encode(w, table.YAML, rightFile{manifest.APIVersion, manifest.KindRight, manifest.FromRight(r.Name, &stored)}); err != nil {
			return err
		}
	}
	return nil
}

// tokenRow is a row of a list of tokens.
type tokenRow struct {
	document.Token
	now time.Time
}

// Header returns the columns.
func (tokenRow) Header() []table.Column {
	return table.Columns("id", "subject", "expires in", "at most", "only in", "note", "(groups)", "(maker)")
}

// Row returns the cells.
func (t tokenRow) Row() []string {
	left := t.Expires.Sub(t.now)
	expires := "expired"
	if left > 0 {
		expires = render.Shortly(left)
	}
	return []string{t.ID, issued.SubjectText(t.Subject), expires, string(t.Role), strings.Join(t.Namespaces, ","), t.Note, strings.Join(issued.Each(t.Groups, issued.Text), ","), issued.SubjectText(t.Maker)}
}
