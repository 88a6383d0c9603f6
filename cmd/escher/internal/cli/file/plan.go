package file

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/api/reasons"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/scheduler/explain"
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
	*apply.Decision
	Placements []placementRow `json:"placements"`
	// Closed names the exhausted budget of the namespace: apply cannot add anything then.
	Closed string `json:"closed,omitempty"`
	// Notes say which commands are arguments of an entry point.
	Notes []string `json:"notes,omitempty"`
}

// placementRow is where tasks of one document would be placed: those with the same result.
type placementRow struct {
	Kind  manifest.Kind `json:"kind"`
	Name  string        `json:"name,omitempty"`
	Tasks int           `json:"tasks"`
	// Node is where they would run; empty if they would wait.
	Node string `json:"node,omitempty"`
	// Why says what they would wait for.
	Why *why.Explanation `json:"why,omitempty"`
}

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

func newPlanned(ctx context.Context, f *cmdutil.Factory, docs []manifest.Document, opts apply.Options) (*planned, error) {
	client, err := f.Client(ctx)
	if err != nil {
		return nil, err
	}
	d, view, err := library.Decide(ctx, client, docs, time.Now(), opts, howto.Say)
	if err != nil {
		return nil, err
	}
	if err := d.Preview(ctx, client, view); err != nil {
		return nil, err
	}
	p := &planned{Decision: d}
	if p.Placements, err = placements(view, client.Namespace(), d.Changes, time.Now(), explain.Plan); err != nil {
		return nil, err
	}
	p.Notes = p.programNotes(ctx, f, client)
	p.Closed, err = reasons.ClosedText(ctx, client, howto.Say)
	return p, err
}

// prediction is explain.Plan, or explain.Impossible.
type prediction func(*cluster.View, []controlplane.Submission, string, time.Time) ([]explain.Placement, error)

// placements predicts where the tasks of changes would be placed.
func placements(view *cluster.View, ns string, changes []apply.Change, now time.Time, predict prediction) ([]placementRow, error) {
	var subs []controlplane.Submission
	var of []*apply.Change
	for i := range changes {
		for _, s := range changes[i].Submissions {
			subs, of = append(subs, s), append(of, &changes[i])
		}
	}
	rows := []placementRow{}
	if len(subs) == 0 {
		return rows, nil
	}
	placed, err := predict(view, subs, ns, now)
	if err != nil {
		return nil, err
	}
	type group struct {
		change    *apply.Change
		node, why string
	}
	at := make(map[group]int)
	for i, p := range placed {
		if p.Why != nil {
			p.Why = plannedWhy(of[i], p.Why)
		}
		g := group{change: of[i], node: p.Node}
		if p.Why != nil {
			g.why = p.Why.Summary
		}
		if _, seen := at[g]; !seen {
			at[g] = len(rows)
			rows = append(rows, placementRow{Kind: of[i].Kind, Name: of[i].Name, Node: p.Node, Why: p.Why})
		}
		rows[at[g]].Tasks++
	}
	return rows, nil
}

// plannedWhy says why a task of a change would wait. It names the policies of the job, which act
// only after submission.
func plannedWhy(c *apply.Change, x *why.Explanation) *why.Explanation {
	e := x.In(howto.Say)
	id, policies := c.Planned()
	if id == "" {
		return &e
	}
	kinds := builtin.Kinds()
	for i, name := range esl.Labels(policies) {
		prefix := id + "." + name
		if reasons.MadeUnder(prefix, e.Unmet) {
			e.Suggestion = types.Textf("Policy %s does that once the job is submitted.", name)
		}
		if kind := kinds[policies[i].Kind]; kind != nil && !e.Infeasible {
			if frees := esl.Describe(kind()).Frees; frees != "" {
				e.Suggestion = types.Textf("Policy %s %s once it is submitted, if it fits then.", name, frees)
			}
		}
	}
	for _, shared := range reasons.RefersTo(&types.Policies{Job: id, Policies: policies}) {
		if reasons.MadeUnder(shared, e.Unmet) {
			e.Suggestion = types.Textf("How much of it there is, policy %s says.", shared)
		}
	}
	e.Summary = strings.ReplaceAll(e.Summary, id+".", "<job>.")
	return &e
}

func (p *planned) print(f *cmdutil.Factory, again string) error {
	if f.Format.Encoded() {
		if err := table.Encode(f.Out, f.Format, p); err != nil {
			return err
		}
		return p.problem()
	}
	if err := cmdutil.Print(f, changeRows(p.Decision, false)); err != nil {
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
		if err := cmdutil.Print(f, p.Placements); err != nil {
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
func impossible(placed []placementRow) (n int, example string) {
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
