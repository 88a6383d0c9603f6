package file

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/plan"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/types"
)

const planHelp = `Shows what escher apply would do with a file: the changes, the node of each new task in
the present cluster, the resources that waiting tasks lack, and what the policies of a
job add to it. It changes nothing. Tasks that apply would stop still hold their capacity.

The exit code is 0 if apply can do all of it, even if tasks wait at first. It is 6 if a
task can never run on the present nodes, or if apply would be refused.

  escher plan -f app.yaml
  escher plan -f app.yaml --replace     what differs would be launched again
  escher plan -f app.yaml --replace --at-once 2 --order start-first`

// NewPlan returns the command that shows what apply would do.
func NewPlan(f *cmdutil.Factory) *cobra.Command {
	var file string
	var opts apply.Options
	var replacing *replacing
	cmd := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Show what apply would do, and where tasks would be placed",
		Long:  planHelp,
		Args:  cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			docs, err := ReadManifest(f, file)
			if err == nil {
				err = replacing.override(docs)
			}
			if err != nil {
				return err
			}
			if _, err := PackWorkdirs(cmd.Context(), f, file, docs); err != nil {
				return err
			}
			p, err := newPlanned(cmd.Context(), f, docs, opts)
			if err != nil {
				return err
			}
			return p.print(f, fmt.Sprintf("escher apply -f %s --if-revision %s%s", file, p.Condition, replacing))
		},
	}
	AddFile(cmd, &file)
	replacing = addReplacing(cmd, &opts)
	return cmd
}

// planned is what apply would do, and where tasks would be placed.
type planned struct {
	plan.Plan

	// Notes say which commands are arguments of an entry point.
	Notes []string `json:"notes,omitempty"`
}

// placementRow is a row of a list of placements.
type placementRow struct{ plan.Placement }

// Header returns the columns.
func (placementRow) Header() []table.Column {
	return table.Columns("name", "tasks", "node", "waits because")
}

// Row returns the cells.
func (p placementRow) Row() []string {
	text := ""
	if p.Why != nil {
		text = strings.TrimSpace(p.Why.Summary + " " + p.Why.Suggestion.String())
	}
	return []string{slashed(p.Kind, p.Name), strconv.Itoa(p.Tasks), p.Node, text}
}

// newPlanned asks for a plan.
func newPlanned(ctx context.Context, f *cmdutil.Factory, docs []manifest.Document, opts apply.Options) (*planned, error) {
	p := &planned{}
	text, err := manifest.Encode(docs)
	if err == nil {
		err = f.SendDocuments(ctx, "plan", text, opts, &p.Plan)
	}
	if err != nil {
		return nil, err
	}
	client, err := f.Client(ctx)
	if err != nil {
		return nil, err
	}
	for i := range p.Changes {
		if c := &p.Changes[i]; c.Tasks > 0 && i < len(docs) {
			c.Submissions = submissionsOf(&docs[i])
		}
	}
	p.Notes = p.programNotes(ctx, f, client)
	return p, nil
}

// submissionsOf returns the tasks of a document, without what policies add; none if it has none.
func submissionsOf(doc *manifest.Document) (all []controlplane.Submission) {
	switch {
	case doc.Task != nil:
		if s, err := doc.Task.Submission(time.Now()); err == nil {
			all = append(all, s)
		}
	case doc.Job != nil:
		all, _ = doc.Job.Submissions(time.Now()) // the plan has been made of them
	}
	return all
}

func (p *planned) print(f *cmdutil.Factory, again string) error {
	if f.Format.Encoded() {
		if err := table.Encode(f.Out, f.Format, p); err != nil {
			return err
		}
		return p.problem()
	}
	if err := cmdutil.Print(f, changeRows(&p.Decision, false)); err != nil {
		return err
	}
	if added := p.added(); len(added) > 0 && f.Format != table.Name {
		fmt.Fprintln(f.Out)
		if err := cmdutil.Print(f, added); err != nil {
			return err
		}
	}
	if len(p.Placements) > 0 && f.Format != table.Name {
		fmt.Fprintln(f.Out)
		rows := make([]placementRow, len(p.Placements))
		for i, at := range p.Placements {
			rows[i] = placementRow{at}
		}
		if err := cmdutil.Print(f, rows); err != nil {
			return err
		}
	}
	if p.Closed != "" && f.Format != table.Name {
		fmt.Fprintf(f.Out, "\n%s\n", table.Line(p.Closed))
	}
	for _, note := range p.Notes {
		if f.Format != table.Name {
			fmt.Fprintf(f.Out, "\nnote: %s\n", table.Line(note))
		}
	}
	err := p.problem()
	if err == nil && f.Format != table.Name {
		fmt.Fprintf(f.Out, "\nDo it with: %s\n", again)
	}
	return err
}

// addedRow is one object that policies add to a job.
type addedRow struct{ job, adds string }

// Header returns the columns.
func (addedRow) Header() []table.Column { return table.Columns("name", "its policies add") }

// Row returns the cells.
func (a addedRow) Row() []string { return []string{a.job, a.adds} }

// added lists the additions of policies.
func (p *planned) added() []addedRow {
	var rows []addedRow
	for i := range p.Changes {
		c := &p.Changes[i]
		for _, adds := range c.Adds {
			rows = append(rows, addedRow{slashed(c.Kind, c.Name), adds})
		}
	}
	return rows
}

// problem says why the plan cannot be carried out, nil if it can.
func (p *planned) problem() error {
	if err := p.Blocked(); err != nil {
		return types.Errorf(types.Precondition, "plan: %w", err)
	}
	if never, example := impossible(p.Placements); never > 0 {
		return types.Errorf(types.Precondition, "plan: %d of the tasks can never run on the nodes that there are: %s", never, example)
	}
	return nil
}

// impossible returns the number of tasks that can never run on the present nodes, and why one of
// them cannot.
func impossible(placed []plan.Placement) (n int, example string) {
	for _, r := range placed {
		if r.Why != nil && r.Why.Infeasible {
			if n == 0 {
				example = slashed(r.Kind, r.Name) + ": " + r.Why.Summary
			}
			n += r.Tasks
		}
	}
	return n, example
}
