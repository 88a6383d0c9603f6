package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/types"
)

// findingRow is a row of a list of broken invariants.
type findingRow struct{ audit.Finding }

// Header returns the columns.
func (findingRow) Header() []table.Column {
	return table.Columns("revision", "guarantee", "object", "what is wrong")
}

// NewAudit returns the command that checks the invariants.
func NewAudit(f *cmdutil.Factory) *cobra.Command {
	var follow bool
	var logs executionFlags
	var repair repairFlags
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Check the invariants of the cluster; fails if one does not hold",
		Long: `Checks that nothing is held twice or beyond what there is, that no task is lost or
bound twice, that gangs are whole, and that every value can be read: once, or with -f
at every revision until it is interrupted. Once, it also checks that nothing was left
behind by what it ends with; if there is something, it looks again until that is gone, for
half a minute at most, as the server may be about to delete it.

With --exec-log it checks, instead, that two attempts of a task never ran at the same
time and none ran twice: by the logs that nodes keep of what they run,
executions.log in the state directory of each agent. No cluster is asked.

A value that cannot be read counts as absent, and the finding names its key. With --repair
the command says what is wrong with the value, asks, and repairs the key: what is in use on
a node is counted again, a task of which it is not known what ran fails, and any other key
is removed. Nothing happens if the key, or one that the repair goes by, changed meanwhile.`,
		Example: `  escher audit
  escher audit --exec-log node-1.log --exec-log node-2.log
  escher audit --repair /escher/status/default/web-x7k2m4q9ab --keep value.bin`,
		Args: cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(logs.files) > 0 || cmd.Flags().Changed("clock-skew") {
				return logs.audit(f, follow)
			}
			if err := repair.validate(follow); err != nil {
				return err
			}
			store, err := f.Store(cmd.Context())
			if err != nil {
				return err
			}
			if repair.key != "" {
				return repair.repair(cmd.Context(), f, store)
			}
			if follow {
				return followAudit(cmd.Context(), f, store)
			}
			done := f.Progress("checking all keys")
			report, err := audit.Run(cmd.Context(), store, func(left []audit.Finding) {
				done()
				done = f.Progress(stillToDo(left))
			})
			done()
			if err != nil {
				return err
			}
			return printReport(f, report)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on, and check every revision")
	logs.Add(cmd.Flags())
	repair.Add(cmd.Flags())
	return cmd
}

// stillToDo says what the audit waits for.
func stillToDo(left []audit.Finding) string {
	text := "waiting for a scheduler to go on: "
	if left[0].Guarantee == audit.NothingLeft {
		text = "waiting for the server to delete what is left: "
	}
	text += left[0].String()
	if more := len(left) - 1; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

func printReport(f *cmdutil.Factory, report audit.Report) error {
	spoken(report.Findings)
	switch {
	case f.Format.Encoded():
		if err := table.Encode(f.Out, f.Format, report); err != nil {
			return err
		}
	case len(report.Findings) == 0:
		fmt.Fprintf(f.Out, "all guarantees hold at revision %d: %d keys, %d nodes, %d tasks, %d bindings\n",
			report.Revision, report.Keys, report.Nodes, report.Tasks, report.Bindings)
	default:
		rows := make([]findingRow, len(report.Findings))
		for i, found := range report.Findings {
			rows[i] = findingRow{found}
		}
		if err := cmdutil.Print(f, rows); err != nil {
			return err
		}
	}
	var n counted
	n.add(report.Findings)
	return n.verdict()
}

// followAudit prints findings as they appear.
func followAudit(ctx context.Context, f *cmdutil.Factory, store controlplane.Store) error {
	var total counted
	revisions := 0
	err := audit.Follow(ctx, store, nil, func(_ int64, found []audit.Finding) error {
		revisions++
		total.add(found)
		spoken(found)
		for _, x := range found {
			fmt.Fprintln(f.Out, x)
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		return err
	}
	f.Tell("%d revisions checked", revisions)
	return total.verdict()
}

// spoken gives findings the remedy as command lines.
func spoken(found []audit.Finding) {
	for i := range found {
		found[i].Text = found[i].Text.In(howto.Say)
	}
}

// counted counts findings.
type counted struct {
	// all are all findings, schema those about keys that cannot be read.
	all, schema int
}

func (c *counted) add(found []audit.Finding) {
	for _, f := range found {
		c.all++
		if f.Guarantee == audit.Schema {
			c.schema++
		}
	}
}

// verdict returns an error if there are findings. A value that cannot be read counts as absent, which
// breaks other guarantees.
func (c *counted) verdict() error {
	switch {
	case c.all == 0:
		return nil
	case c.schema > 0 && c.schema == c.all:
		return types.Errorf(types.Precondition, "audit: %d keys cannot be read: repair them", c.all)
	case c.schema > 0:
		return types.Errorf(types.Precondition, "audit: %d findings, %d of them keys that cannot be read: repair these, and audit again: the others may follow from them", c.all, c.schema)
	}
	return types.Errorf(types.Internal, "audit: %d findings: please report them, with the directory of the cluster", c.all)
}
