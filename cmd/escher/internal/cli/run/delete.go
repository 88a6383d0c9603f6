package run

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/file"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

const deleteHelp = `Deletes the objects that a file describes, by their names: it stops tasks and jobs, waits
for their end and deletes them, withdraws shared policies, gives up reservations, and
removes resources and rights. Tasks and jobs that are not there are named, and are no
error. Namespaces stay.

With -l it stops and deletes the tasks and jobs with these labels instead.

  escher delete -f app.yaml
  escher stop -f app.yaml     only stops its tasks and jobs
  escher delete -l sweep=7    --dry-run only lists them`

// NewDelete returns the command that deletes the objects in a file.
func NewDelete(f *cmdutil.Factory) *cobra.Command {
	var path string
	var labels cmdutil.Selection
	var dry bool
	cmd := &cobra.Command{
		Use:   "delete -f FILE|-l LABELS",
		Short: "Stop and delete the objects in a file, or with labels",
		Long:  deleteHelp,
		Args:  fileOr(&path, &labels, cmdutil.Exactly()),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !labels.IsZero() {
				return deleteSelected(cmd.Context(), f, &labels, dry)
			}
			if dry {
				return types.Errorf(types.Invalid, "dry-run: is for --selector: the file itself says what is deleted")
			}
			docs, err := file.ReadManifest(f, path)
			if err != nil {
				return err
			}
			client, err := f.Client(cmd.Context())
			if err != nil {
				return err
			}
			return deleteAll(cmd.Context(), f, client, docs)
		},
	}
	file.AddFile(cmd, &path)
	labels.AddSelector(cmd, cmdutil.TaskLabels, "the tasks and jobs")
	addDryRun(cmd, &dry)
	return cmd
}

// deleteSelected stops and deletes tasks and jobs by their labels.
func deleteSelected(ctx context.Context, f *cmdutil.Factory, labels *cmdutil.Selection, dry bool) error {
	client, err := f.Client(ctx)
	if err != nil {
		return err
	}
	targets, err := selected(ctx, f, client, labels, dry, "deleting", func(*controlplane.TaskState) bool { return true })
	if err != nil {
		return err
	}
	if dry {
		return list(f, targets)
	}
	if err := stopFirst(ctx, f, client, targets); err != nil {
		return err
	}
	return remove(ctx, f, client, targets)
}

// deleteAll deletes what documents describe, the last first: those before may be needed by it.
func deleteAll(ctx context.Context, f *cmdutil.Factory, client *controlplane.Client, docs []manifest.Document) error {
	var targets []cmdutil.Named
	for i := range docs {
		found, err := described(ctx, client, docs[i:i+1])
		if err != nil {
			return err
		}
		if len(found) == 0 && (docs[i].Kind == manifest.KindTask || docs[i].Kind == manifest.KindJob) {
			f.Tell("%s: already deleted", docs[i].Name())
		}
		targets = append(targets, found...)
	}
	if err := stopFirst(ctx, f, client, targets); err != nil {
		return err
	}
	if err := remove(ctx, f, client, targets); err != nil {
		return err
	}
	for _, doc := range slices.Backward(docs) {
		var err error
		switch doc.Kind {
		case manifest.KindPolicy:
			err = withdraw(ctx, f, doc.Name())
		case manifest.KindReservation:
			err = f.Unreserve(ctx, doc.Name())
		case manifest.KindResource:
			err = removeResource(ctx, f, doc.Resource)
		case manifest.KindRight:
			err = f.Change(ctx, http.MethodDelete, "/v1/rights/"+url.PathEscape(doc.Name()), nil, nil)
		case manifest.KindNamespace:
			f.Tell("namespace %s stays: to remove it: escher namespace rm %s", doc.Name(), doc.Name())
			continue
		default:
			continue
		}
		if types.Is(err, types.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(f.Out, doc.Name())
	}
	return nil
}

// withdrawWithin is how long the policies of deleted jobs, which the collector deletes, may still refer
// to a shared policy.
const withdrawWithin = 10 * time.Second

// withdraw withdraws a shared policy once no job refers to it. Precondition: jobs that were not
// deleted do.
func withdraw(ctx context.Context, f *cmdutil.Factory, id string) error {
	late, cancel := context.WithTimeout(ctx, withdrawWithin)
	defer cancel()
	for retry := controlplane.RetryPolicy(); ; {
		err := f.Withdraw(ctx, id, false)
		if !types.Is(err, types.Precondition) || supervise.Pause(late, retry.NextBackOff()) != nil {
			return err
		}
	}
}

// removeResource removes a resource from where a file puts it.
func removeResource(ctx context.Context, f *cmdutil.Factory, described *manifest.Resource) error {
	var where manifest.Where
	if described.Where != nil {
		where = *described.Where
	}
	return f.RemoveResource(ctx, described.Name, where)
}

// described returns the tasks and jobs with the names or ids that a file gives, ended ones too.
func described(ctx context.Context, client *controlplane.Client, docs []manifest.Document) ([]cmdutil.Named, error) {
	var out []cmdutil.Named
	for _, doc := range docs {
		kind := controlplane.Tasks
		switch doc.Kind {
		case manifest.KindTask:
		case manifest.KindJob:
			kind = controlplane.Jobs
		default:
			continue
		}
		ids, err := cmdutil.IdsCalled(ctx, client, kind, doc.Name())
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			out = append(out, cmdutil.Named{Kind: kind, ID: id})
		}
	}
	return out, nil
}
