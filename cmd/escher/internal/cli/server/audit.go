package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
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
		Short: "Check the invariants of the cluster, and fail if one does not hold",
		Long: `Checks that no resource is held twice or beyond its capacity, that no task is lost or
bound twice, that gangs are whole, and that every value is readable: once, or with -f at
every revision until interrupted. Without -f it also checks that no object has outlived
its owner. If one has, it looks again for up to half a minute, because the server may be
about to delete it.

With --exec-log it checks instead that no attempts of a task ran at the same time, and
none ran twice. It reads the logs that nodes keep of what they run, executions.log in the
state directory of each agent, and needs no cluster.

An unreadable value counts as absent; the finding names its key. With --repair the
command shows what is wrong with the value, asks, and repairs the key. It counts the use
of a node again, lets a task fail if it is unknown what ran, and removes any other key.
It does nothing if the key, or another one that the repair relies on, has changed.

  escher audit
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
			if repair.key == "" && !follow {
				return auditOnce(cmd.Context(), f)
			}
			store, err := f.Etcd(cmd.Context())
			if err != nil {
				return err
			}
			if repair.key != "" {
				return repair.repair(cmd.Context(), f, store)
			}
			return followAudit(cmd.Context(), f, store)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "check every revision until interrupted")
	logs.Add(cmd.Flags())
	repair.Add(cmd.Flags())
	return cmd
}

// auditOnce checks the present state, and prints what it finds.
func auditOnce(ctx context.Context, f *cmdutil.Factory) error {
	done := f.Progress("checking all keys")
	defer func() { done() }()
	c, err := f.API(ctx)
	if err != nil {
		return err
	}
	type list struct{ Items []audit.Finding }
	report, err := client.Long[audit.Report](ctx, c, http.MethodGet, "/v1/audit", "", nil, func(left list) {
		done()
		done = f.Progress(stillToDo(left.Items))
	})
	done()
	if err != nil {
		return err
	}
	return printReport(f, report)
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
		fmt.Fprintf(f.Out, "all guarantees hold at revision %d: %s, %s, %s, %s\n", report.Revision,
			words.Count(report.Keys, "key"), words.Count(report.Nodes, "node"), words.Count(report.Tasks, "task"), words.Count(report.Bindings, "binding"))
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
	f.Tell("%s checked", words.Count(revisions, "revision"))
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
		return types.Errorf(types.Precondition, "audit: %s unreadable: repair each", words.Count(c.all, "key"))
	case c.schema > 0:
		return types.Errorf(types.Precondition, "audit: %s, %d of them unreadable keys: repair these and audit again: the others may follow from them", words.Count(c.all, "finding"), c.schema)
	}
	return types.Errorf(types.Internal, "audit: %s: please report it, with the directory of the cluster", words.Count(c.all, "finding"))
}
