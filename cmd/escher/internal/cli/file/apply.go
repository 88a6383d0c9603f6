// Package file holds the commands about files of objects: apply, plan, schema.
package file

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/types"
)

const applyHelp = `Creates or updates the objects in a file, and leaves alone those that are as described.
It sets resources, creates reservations and declares shared policies. It finds a task or
job by its name. One that is as described stays, whether it waits, runs or has ended by
itself. One that is absent or was stopped is launched. One that differs is replaced, with
--replace.

  escher plan -f app.yaml                                the changes to make
  escher apply -f app.yaml --if-revision 4711-9f86d081   make them, unless an object has changed`

// NewApply returns the command that creates and updates the objects in a file.
func NewApply(f *cmdutil.Factory) *cobra.Command {
	var file, condition string
	var opts apply.Options
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Create or update the objects in a file",
		Long:  applyHelp,
		Args:  cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if condition != "" {
				var err error
				if opts.If, err = apply.ParseCondition(condition); err != nil {
					return types.Errorf(types.ClassOf(err), "if-revision: %w", err)
				}
			}
			docs, err := ReadManifest(f, file)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			client, err := f.Client(ctx)
			if err != nil {
				return err
			}
			done := f.Progress("applying")
			d, err := performed(ctx, client, docs, opts)
			done()
			if err != nil {
				return err
			}
			return cmdutil.Print(f, changeRows(d, true))
		},
	}
	AddFile(cmd, &file)
	addReplace(cmd, &opts)
	cmd.Flags().StringVar(&condition, "if-revision", "", "refuse if an object that the file names has changed since this revision, from escher plan")
	return cmd
}

func addReplace(cmd *cobra.Command, opts *apply.Options) {
	cmd.Flags().BoolVar(&opts.Replace, "replace", false, "stop tasks and jobs that differ, and launch them again")
}

// maxDecisions bounds how often apply decides again after a concurrent change.
const maxDecisions = 5

// performed decides and commits. After a concurrent change, such as another apply of the same file,
// it decides again, unless the revision to go by is given.
func performed(ctx context.Context, client *controlplane.Client, docs []manifest.Document, opts apply.Options) (*apply.Decision, error) {
	for try := 1; ; try++ {
		d, _, err := decide(ctx, client, docs, opts)
		if err != nil {
			return nil, err
		}
		err = d.Perform(ctx, client)
		if !types.Is(err, types.Conflict) || opts.If.Revision != 0 || try == maxDecisions {
			return d, err
		}
	}
}

// decide compares documents with the cluster. It returns the view it used.
func decide(ctx context.Context, client *controlplane.Client, docs []manifest.Document, opts apply.Options) (*apply.Decision, *cluster.View, error) {
	view, err := cmdutil.WholeView(ctx, client.Store())
	if err != nil {
		return nil, nil, err
	}
	if opts.If.Revision > view.Revision {
		return nil, nil, types.Errorf(types.Invalid, "if-revision: %d has not been yet, as the cluster is at %d: give the revision that escher plan said, or leave it out", opts.If.Revision, view.Revision)
	}
	specs := func(digest string) (*types.Spec, error) { return client.Spec(ctx, digest) }
	d, err := apply.Decide(view, client.Namespace(), specs, docs, time.Now(), opts)
	if err == nil {
		err = opts.If.Check(ctx, client.Store(), client.Namespace(), docs, view.Revision)
	}
	if err != nil {
		return nil, nil, err
	}
	if err := d.Expand(ctx, builtin.New(client)); err != nil {
		return nil, nil, err
	}
	for i := range d.Changes {
		d.Changes[i].Blocked = d.Changes[i].Blocked.In(howto.Say)
	}
	return d, view, d.CheckSettings(ctx, client)
}

// changeRow is a row of a list of changes.
type changeRow struct {
	apply.Change

	done bool
}

// Header returns the columns.
func (changeRow) Header() []table.Column {
	return table.Columns("name", "action", "id", "tasks", "note")
}

// Row returns the cells.
func (c changeRow) Row() []string {
	tasks := ""
	if c.Tasks > 0 {
		tasks = strconv.Itoa(c.Tasks)
	}
	return []string{slashed(c.Kind, c.Name), c.action(), c.ID, tasks, c.note()}
}

// slashed formats a kind and a name: task/web.
func slashed(kind manifest.Kind, name string) string {
	return strings.ToLower(string(kind)) + "/" + name
}

// action says what is or was done.
func (c changeRow) action() string {
	if !c.done {
		return string(c.Action)
	}
	switch c.Action {
	case apply.Launch:
		return "launched"
	case apply.Replace:
		return "replaced"
	case apply.Reserve:
		return "reserved"
	case apply.Declare:
		return "declared"
	}
	return string(c.Action)
}

func (c changeRow) note() string {
	var parts []string
	if c.Note != "" {
		parts = append(parts, c.Note)
	}
	if len(c.Stops) > 0 {
		verb := "stops "
		if c.done {
			verb = "stopped "
		}
		parts = append(parts, verb+strings.Join(c.Stops, ","))
	}
	return strings.Join(append(parts, c.Differences...), "; ")
}

func changeRows(d *apply.Decision, done bool) []changeRow {
	rows := make([]changeRow, len(d.Changes))
	for i, c := range d.Changes {
		rows[i] = changeRow{c, done}
	}
	return rows
}
