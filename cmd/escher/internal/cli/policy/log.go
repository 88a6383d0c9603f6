package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/reasons"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/decisions"
	"github.com/escher-sched/escher/types"
)

const logHelp = `Prints the last decisions of the policies of a job, or of a shared policy: what called each,
what it read, what it decided and what became of that, why it did nothing, and when it is
called again. Equal decisions in a row are one line, with their number and last time.

The server that runs policies remembers the last 32 decisions of each of the last 1,000
policies, while it runs. A policy of another program is logged there: docs/policies/log.md.

  escher policies log nightly
  escher policies log team --tail 5 -o wide
  escher policies log team -f`

// logFlags say which decisions to print.
type logFlags struct {
	follow bool
	tail   int
}

// newPoliciesLog returns the command that prints the decisions of policies.
func newPoliciesLog(f *cmdutil.Factory) *cobra.Command {
	var flags logFlags
	cmd := &cobra.Command{
		Use:   "log JOB|POLICY",
		Short: "Print the last decisions of policies, and why they did nothing",
		Long:  logHelp,
		Args:  cmdutil.Exactly("JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.tail < 0 {
				return types.Errorf(types.Invalid, "tail: %d is negative: give how many decisions to print, or 0 for all", flags.tail)
			}
			return flags.run(cmd.Context(), f, args[0])
		},
	}
	cmd.Flags().BoolVarP(&flags.follow, "follow", "f", false, "print further decisions until interrupted")
	cmd.Flags().IntVar(&flags.tail, "tail", 0, "number of the last decisions to print; 0 means all")
	return cmd
}

// decisionRow is a row of a list of decisions.
type decisionRow struct{ decisions.Entry }

// Header returns the columns.
func (decisionRow) Header() []table.Column {
	return table.Columns("last", "times", "policy", "outcome", "decision", "next", "(woken by)", "(read)", "(first)", "(revision)", "(committed)")
}

// Row returns the cells.
func (d decisionRow) Row() []string {
	committed := ""
	if d.Committed != 0 {
		committed = strconv.FormatInt(d.Committed, 10)
	}
	return []string{
		clock(d.Last), strconv.Itoa(d.Times), d.Policy, string(d.Outcome), d.text(), d.next(), d.Woken, d.Looked.String(), clock(d.First), strconv.FormatInt(d.Revision, 10), committed,
	}
}

// text says what was decided, and why.
func (d decisionRow) text() string {
	parts := []string{strings.Join(d.Changes, "; "), d.Reason, d.Error}
	if text := strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ": "); text != "" {
		return text
	}
	switch d.Outcome {
	case decisions.Nothing:
		return "all is as it wants it"
	case decisions.Ended:
		return "it was withdrawn, or its job has ended"
	}
	return ""
}

// next says when the policy is called again.
func (d decisionRow) next() string {
	switch {
	case d.Again != nil:
		return clock(*d.Again)
	case d.Outcome == decisions.Nothing || d.Outcome == decisions.Repeated:
		return "on a change"
	}
	return ""
}

// clock formats a time of a list.
func clock(at time.Time) string { return at.UTC().Format(time.DateTime) }

// Line formats a decision that is followed.
func (d decisionRow) Line() string {
	line := clock(d.Last) + " " + d.Policy + " " + string(d.Outcome)
	for _, part := range []struct{ before, text string }{{": ", d.text()}, {"; woken by ", d.Woken}, {"; read ", d.Looked.String()}, {"; next ", d.next()}} {
		if part.text != "" {
			line += part.before + part.text
		}
	}
	return line
}

// logReader reads the decisions of the policies of a job, or of a shared policy.
type logReader struct {
	f      *cmdutil.Factory
	client *controlplane.Client
	id     string
	// since is when the log began that was read last, after the number of its last change then.
	since time.Time
	after int64
}

func (l *logFlags) run(ctx context.Context, f *cmdutil.Factory, name string) error {
	if _, err := f.Etcd(ctx); err != nil {
		return err
	}
	client, err := f.Client(ctx)
	if err != nil {
		return err
	}
	id, missing := ResolvePolicies(ctx, client, name)
	if types.Is(missing, types.NotFound) {
		id = name // it may have ended a moment ago
	} else if missing != nil {
		return missing
	}
	if err := types.ValidateName("name", id); err != nil {
		return err
	}
	r := &logReader{f: f, client: client, id: id}
	page, err := r.read(ctx)
	if err != nil {
		return err
	}
	if !page.Known {
		if missing != nil {
			return missing
		}
		if err := r.unlogged(ctx, page); err != nil {
			return err
		}
	}
	rows := rowsOf(page)
	if l.tail > 0 {
		rows = rows[max(0, len(rows)-l.tail):]
	}
	if !l.follow {
		return cmdutil.Print(f, rows)
	}
	return r.follow(ctx, rows)
}

func rowsOf(page decisions.Page) []decisionRow {
	rows := make([]decisionRow, len(page.Entries))
	for i, e := range page.Entries {
		rows[i].Entry = e
	}
	return rows
}

// read asks for what has changed since the last answer. After a restart of the server, or on another
// one, that is all.
func (r *logReader) read(ctx context.Context) (decisions.Page, error) {
	server, err := r.f.PolicyLog(ctx)
	if err != nil {
		return decisions.Page{}, err
	}
	page, err := server.Read(ctx, r.client.Namespace(), r.id, r.after)
	if err == nil && !page.Since.Equal(r.since) && r.after > 0 {
		page, err = server.Read(ctx, r.client.Namespace(), r.id, 0)
	}
	if err == nil {
		r.since, r.after = page.Since, page.Seq
	}
	return page, err
}

// unlogged explains why the log has no decision of policies that exist: an error if it will have none.
func (r *logReader) unlogged(ctx context.Context, page decisions.Page) error {
	p, _, err := r.client.Policies(ctx, r.id)
	if err != nil {
		return err
	}
	if p.Session != "" {
		return types.Errorf(types.Precondition, "policies log: %s: the application with session %s runs its policies and has their log: read it there, with Attached.Decisions", r.id, p.Session)
	}
	var others []string
	runs := false
	kinds := builtin.Kinds()
	for _, one := range p.Policies {
		empty := kinds.Of(one.Kind)
		switch {
		case empty != nil:
			_, acts := empty().(esl.Controller)
			runs = runs || acts
		case strings.Contains(one.Kind, "/"):
			others = append(others, one.Kind)
		}
	}
	switch {
	case runs:
		r.f.Tell("no decision is known of %s: its server has logged decisions since %s, and remembers those of the last %d policies", r.id, clock(page.Since), decisions.MaxPolicies)
		return nil
	case len(others) > 0:
		return types.Errorf(types.Precondition, "policies log: %s: another program runs %s and has the log: read it there, with Client.PolicyLog", r.id, strings.Join(others, ", "))
	}
	for _, shared := range reasons.RefersTo(&p) {
		return types.Errorf(types.Precondition, "policies log: %s: it uses the shared policy %s, which has the log: escher policies log %[2]s", r.id, shared)
	}
	return types.Errorf(types.Precondition, "policies log: %s: its policies decide at submission alone, and log nothing: escher policies describe %[1]s shows what they have made", r.id)
}

// followEvery is how often a log that is followed is read.
const followEvery = time.Second

// follow prints rows, and then further ones, until ctx is done. A server that does not answer is asked
// again.
func (r *logReader) follow(ctx context.Context, rows []decisionRow) error {
	ctx, stop := r.f.WhileWritable(ctx)
	defer stop()
	var printed int64
	said := ""
	for {
		slices.SortFunc(rows, func(a, b decisionRow) int { return cmp.Compare(a.Seq, b.Seq) })
		for _, row := range rows {
			if row.Seq <= printed {
				continue // one more like it
			}
			printed = row.Seq
			if err := r.show(row); err != nil {
				return err
			}
		}
		if err := supervise.Pause(ctx, followEvery); err != nil {
			return err
		}
		before := r.since
		page, err := r.read(ctx)
		if err != nil {
			if !types.ClassOf(err).Retryable() && !types.Is(err, types.Precondition) {
				return err
			}
			if text := err.Error(); text != said && ctx.Err() == nil {
				said = text
				r.f.Tell("%v", err)
			}
			rows = nil
			continue
		}
		if !page.Since.Equal(before) {
			printed = 0
		}
		rows, said = rowsOf(page), ""
	}
}

// show prints a decision that is followed.
func (r *logReader) show(row decisionRow) error {
	if r.f.Format.Encoded() {
		if r.f.Format == table.YAML {
			fmt.Fprintln(r.f.Out, "---")
		}
		return table.Encode(r.f.Out, r.f.Format, row)
	}
	fmt.Fprintln(r.f.Out, table.Line(row.Line()))
	return nil
}
