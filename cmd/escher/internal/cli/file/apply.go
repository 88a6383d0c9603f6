// Package file holds the commands about files of objects: apply, plan, schema.
package file

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/api/plan"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

const applyHelp = `Creates or updates the objects in a file, and leaves alone those that are as described.
It sets resources, namespaces and rights, creates reservations and declares shared
policies. It finds a task or job by its name. One that is as described stays, whether it
waits, runs or has ended by itself. One that is absent or was stopped is launched. One
that differs is replaced, with --replace: all at once, or one task after the other if
the job has an update. Only the missing tasks of a job with a larger count are added,
and its others are left alone. Labels change in place.

  escher plan -f app.yaml               the changes to make, and a revision
  escher apply -f app.yaml              make them
  escher apply -f app.yaml --replace    also launch again what differs
  escher apply -f app.yaml --replace --at-once 2 --order start-first --healthy 5s

With --if-revision and the revision that plan printed, it is refused if an object has
changed since. --at-once, --order and --healthy count instead of the update in the file,
for this time. They replace a job without an update one task after the other, too.`

// NewApply returns the command that creates and updates the objects in a file.
func NewApply(f *cmdutil.Factory) *cobra.Command {
	var file, condition string
	var opts apply.Options
	var replacing *replacing
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
			if err == nil {
				err = replacing.override(docs)
			}
			if err != nil {
				return err
			}
			done, err := applyFile(cmd.Context(), f, file, docs, opts)
			if err != nil {
				return err
			}
			if n, example := impossible(done.Placements); n > 0 {
				f.Tell("warning: %d of the tasks can never run on the nodes that there are: %s: add nodes, or change the file and apply it with --replace", n, strings.TrimSuffix(example, "."))
			}
			return cmdutil.Print(f, changeRows(&done.Decision, true))
		},
	}
	AddFile(cmd, &file)
	replacing = addReplacing(cmd, &opts)
	cmd.Flags().StringVar(&condition, "if-revision", "", "refuse if an object that the file names has changed since this revision, from escher plan")
	return cmd
}

// applyFile applies the documents of a file, after it has sent their directories. At a terminal, it asks
// before it stops surplus tasks.
func applyFile(ctx context.Context, f *cmdutil.Factory, path string, docs []manifest.Document, opts apply.Options) (out plan.Plan, err error) {
	workdirs, err := PackWorkdirs(ctx, f, path, docs)
	if err != nil {
		return out, err
	}
	text, err := manifest.Encode(docs)
	if err != nil {
		return out, err
	}
	done := sync.OnceFunc(f.Progress("applying"))
	defer done()
	if _, _, terminal := f.TerminalSize(f.In); len(workdirs) > 0 || terminal && !opts.Replace {
		if err := f.SendDocuments(ctx, "plan", text, opts, &out); err != nil {
			return out, err
		}
		done() // what follows has a progress of its own
		if surplus := out.Surplus(); terminal && !opts.Replace && len(surplus) > 0 {
			if opts.Replace, err = f.Ask(fmt.Sprintf("Stop %s, which the file no longer describes?", words.List(surplus, 3))); err != nil {
				return out, err
			}
		}
		if launches(&out.Decision) {
			if err := workdirs.Send(ctx, f); err != nil {
				return out, err
			}
		}
	}
	c, err := f.API(ctx)
	if err != nil {
		return out, err
	}
	out, err = client.Long[plan.Plan](ctx, c, http.MethodPost, f.DocumentsPath("apply", opts), "application/yaml", bytes.NewReader(text), func(s apply.Step) {
		done()
		f.Tell("%s", s)
	})
	if err != nil && ctx.Err() != nil {
		f.ProgressLine("interrupted: some of it may be applied: to go on, apply the file again")
	}
	return out, err
}

// launches reports whether a decision launches tasks, and nothing is in its way.
func launches(d *apply.Decision) bool {
	return d.Blocked() == nil && slices.ContainsFunc(d.Changes, func(c apply.Change) bool {
		return c.Action == apply.Launch || c.Action == apply.Replace || c.Action == apply.Update
	})
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
	case apply.Update:
		return "updated"
	case apply.Relabel:
		return "relabeled"
	}
	return string(c.Action)
}

func (c changeRow) note() string {
	var parts []string
	switch {
	case c.InPlace != nil:
		parts = append(parts, inPlaceText(c.InPlace, c.done))
	case c.Note != "":
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
