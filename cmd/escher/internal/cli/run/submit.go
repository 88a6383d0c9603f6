package run

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/file"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/types"
)

const submitHelp = `Launches the tasks and jobs in a file, all of them or none, and prints the id of each.
A second submit launches them a second time. docs/jobs.md explains the files; escher
schema prints their JSON Schema.

  escher submit -f job.yaml
  escher submit -f job.yaml --attach     shows the output, like escher run
  escher submit -f task.yaml --count 100 -l sweep=7
  escher wait $(escher submit -f job.yaml)`

// submitFlags say what to submit, and how.
type submitFlags struct {
	file  string
	count int
	// counted reports whether count is given.
	counted bool
	attach  bool
	labels  labelFlags
}

// NewSubmit returns the command that launches the tasks and jobs in a file.
func NewSubmit(f *cmdutil.Factory) *cobra.Command {
	var flags submitFlags
	cmd := cmdutil.EndsWithTask(&cobra.Command{
		Use:   "submit -f FILE",
		Short: "Launch the tasks and jobs in a file",
		Long:  submitHelp,
		Args:  cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notANumber(f); err != nil {
				return err
			}
			flags.counted = cmd.Flags().Changed("count")
			docs, err := file.ReadManifest(f, flags.file)
			if err != nil {
				return err
			}
			flags.labels.AddTo(docs)
			return flags.submit(cmd.Context(), f, docs)
		},
	}, "attach")
	file.AddFile(cmd, &flags.file)
	cmd.Flags().IntVar(&flags.count, "count", 0, "number of tasks, as one job; the file describes one task or one job with a template")
	flags.labels.Add(cmd.Flags(), "l")
	cmd.Flags().BoolVar(&flags.attach, "attach", false, "print the output of the tasks, and end with their exit code")
	return cmd
}

// multiply makes one document so many tasks.
func (s *submitFlags) multiply(docs []manifest.Document) error {
	if !s.counted {
		return nil
	}
	if s.count < 1 || s.count > manifest.MaxTasks {
		return types.Errorf(types.Invalid, "count: %d is out of range: give 1 to %d, and submit more in several jobs", s.count, manifest.MaxTasks)
	}
	if len(docs) != 1 {
		return types.Errorf(types.Invalid, "count: the file describes %d things: give it for one alone, or write count into the file", len(docs))
	}
	doc := &docs[0]
	switch {
	case doc.Kind == manifest.KindTask && doc.Task.ID != "":
		return types.Errorf(types.Invalid, "count: the task has an id, which only one can have: leave id out")
	case doc.Kind == manifest.KindTask:
		doc.Job = &manifest.Job{Name: doc.Task.Name, Labels: doc.Task.Labels, Count: s.count, Template: doc.Task}
		doc.Kind, doc.Task = manifest.KindJob, nil
	case doc.Kind == manifest.KindJob && doc.Job.Template != nil:
		doc.Job.Count = s.count
	default:
		return types.Errorf(types.Invalid, "count: %s has no template to be counted: leave --count out", doc)
	}
	return nil
}

func (s *submitFlags) submit(ctx context.Context, f *cmdutil.Factory, docs []manifest.Document) error {
	if err := s.multiply(docs); err != nil {
		return err
	}
	workdirs, err := file.PackWorkdirs(ctx, f, s.file, docs)
	if err != nil {
		return err
	}
	tasks, err := f.Tasks(ctx)
	if err != nil {
		return err
	}
	if err := workdirs.Send(ctx, f); err != nil {
		return err
	}
	done := f.Progress("submitting")
	ids, launched, err := launchAll(ctx, f, tasks, docs)
	done()
	if err != nil {
		return err
	}
	if s.attach {
		return attached(ctx, f, tasks, launched, nil)
	}
	for _, id := range ids {
		fmt.Fprintln(f.Out, id)
	}
	return nil
}

// launchAll launches documents: outside a task in one transaction if it fits, in a task one document after
// the other. It returns the id of each, and those of all tasks.
func launchAll(ctx context.Context, f *cmdutil.Factory, tasks cmdutil.Tasks, docs []manifest.Document) (ids, launched []string, err error) {
	d, err := apply.Submit(docs, time.Now())
	if err != nil {
		return nil, nil, err
	}
	if f.InTask() {
		return launchInside(ctx, tasks, d)
	}
	text, err := manifest.Encode(docs)
	if err != nil {
		return nil, nil, err
	}
	var done struct {
		Changes []apply.Change
		Tasks   []string
	}
	err = f.SendDocuments(ctx, "submit", text, apply.Options{}, &done)
	for i := range done.Changes {
		ids = append(ids, done.Changes[i].ID)
	}
	return ids, done.Tasks, err
}

// launchInside launches a decision from within a task.
func launchInside(ctx context.Context, tasks cmdutil.Tasks, d *apply.Decision) (ids, launched []string, err error) {
	for i := range d.Changes {
		c := &d.Changes[i]
		var l controlplane.Launched
		if c.Kind == manifest.KindJob {
			l, err = tasks.LaunchJob(ctx, controlplane.Job{Name: c.Name, Labels: c.Labels(), Tasks: c.Submissions}, c.Policies()...)
		} else {
			l, err = tasks.Launch(ctx, c.Submissions...)
		}
		if err != nil {
			return nil, nil, err
		}
		c.Done(l)
		ids = append(ids, c.ID)
	}
	return ids, d.Launched(), nil
}
