package run

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
	"github.com/escher-sched/escher/types"
)

const logsHelp = `Prints the output of all attempts of a task, on any node; a line on the error output
announces each further attempt. What the task wrote to its error output goes to the error
output. For several tasks, or a job, it prints the lines of all in order of time, with the
task before each.

With -f it follows the tasks across attempts, restarts and nodes until they have ended,
and ends with their exit code. It joins tasks of a job that come later. While a task
waits, it says why. Ctrl-C ends the command, and not the task.

If a node does not answer, the output of its tasks is missing, and that of the others is
printed. The command then fails, with exit code 125 if it follows.

  escher logs web                   all output that is stored
  escher logs -t --since 5m train   of the last five minutes, with the time of each line
  escher logs --stderr web          only what it wrote to its error output
  escher logs --tail 20 -f web      the last lines, and new ones
  escher logs --attempt 1 web       one attempt; -p is the one before the last
  escher logs -l team=vision        all tasks with this label`

// logFlags select a part of a log, and how to show it.
type logFlags struct {
	labels                     cmdutil.Selection
	follow, previous           bool
	timestamps, stdout, stderr bool
	noPrefix                   bool
	attempt, tail              int
	since, until               string
	tasklog.Selection
}

// NewLogs returns the command that shows the output of tasks.
func NewLogs(f *cmdutil.Factory) *cobra.Command {
	var flags logFlags
	cmd := cmdutil.EndsWithTask(&cobra.Command{
		Use:   "logs TASK|JOB...|-l LABELS",
		Short: "Print the output of tasks or jobs",
		Long:  logsHelp,
		Args:  flags.labels.Args(cmdutil.AtLeastOne("TASK")),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.validate(cmd, time.Now()); err != nil {
				return err
			}
			err := logs(cmd.Context(), f, args, flags)
			if n, bad := strconv.Atoi(f.Given.Namespace); err != nil && bad == nil {
				return types.Errorf(types.ClassOf(err), "%w; -n names a namespace: for the last lines, give --tail %d", err, n)
			}
			return err
		},
	}, "follow")
	set := cmd.Flags()
	flags.labels.AddSelector(cmd, cmdutil.TaskLabels, "all tasks")
	set.BoolVarP(&flags.follow, "follow", "f", false, "follow the output until the tasks have ended")
	set.BoolVarP(&flags.timestamps, "timestamps", "t", false, "print the time of each line, in UTC")
	set.StringVar(&flags.since, "since", "", "only output of the last DURATION, such as 5m, or since a time, such as 2026-01-31T12:00:00Z")
	set.StringVar(&flags.until, "until", "", "only output until then: a time, or a duration ago, as --since")
	set.BoolVar(&flags.stdout, "stdout", false, "only the standard output of the tasks")
	set.BoolVar(&flags.stderr, "stderr", false, "only the error output of the tasks")
	set.BoolVar(&flags.noPrefix, "no-prefix", false, "print no task before the lines of several tasks")
	set.IntVar(&flags.attempt, "attempt", 0, "only this attempt; default: all")
	set.BoolVarP(&flags.previous, "previous", "p", false, "only the attempt before the last")
	set.IntVar(&flags.tail, "tail", -1, "number of last lines of each task, of the last attempt only; default: all lines of all attempts")
	return cmd
}

func (l *logFlags) validate(cmd *cobra.Command, now time.Time) (err error) {
	switch {
	case cmd.Flags().Changed("attempt") && l.attempt < 1:
		return types.Errorf(types.Invalid, "attempt: %d is none: give a number from 1 on", l.attempt)
	case cmd.Flags().Changed("tail") && l.tail < 0:
		return types.Errorf(types.Invalid, "tail: %d is negative: give how many lines to show", l.tail)
	case l.attempt > 0 && l.previous:
		return types.Errorf(types.Invalid, "previous: excludes --attempt: give one of them")
	case l.follow && l.until != "":
		return types.Errorf(types.Invalid, "until: excludes --follow, which ends with the tasks: give one of them")
	}
	if l.Since, err = parseTime("since", l.since, now); err != nil {
		return err
	}
	if l.Until, err = parseTime("until", l.until, now); err != nil {
		return err
	}
	if !l.Until.IsZero() && l.Until.Before(l.Since) {
		return types.Errorf(types.Invalid, "until: %s is before --since %s: nothing lies between: exchange them", l.until, l.since)
	}
	switch {
	case l.stdout && !l.stderr:
		l.Stream = tasklog.Stdout
	case l.stderr && !l.stdout:
		l.Stream = tasklog.Stderr
	}
	return nil
}

// parseTime parses a time, or how long ago it was; an empty text is the zero value.
func parseTime(name, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	if at, ok := cmdutil.ParseMoment(text); ok {
		return at, nil
	}
	return time.Time{}, types.Errorf(types.Invalid, "%s: %q is not a time: give how long ago, such as 5m, or a time such as 2026-01-31T12:00:00Z", name, text)
}

func logs(ctx context.Context, f *cmdutil.Factory, names []string, flags logFlags) error {
	client, err := f.Client(ctx)
	if err != nil {
		if dir, bad := f.Dir(); bad == nil && types.Is(err, types.Unavailable) {
			return types.Errorf(types.ClassOf(err), "%w; of a cluster that does not run, what its tasks wrote is below %s/agents/NODE/logs", err, dir)
		}
		return err
	}
	ids, jobs, err := flags.tasks(ctx, f, client, names)
	if len(ids) == 0 || err != nil {
		return err
	}
	what := strings.Join(names, ", ")
	if !flags.labels.IsZero() {
		what = flags.labels.String()
	}
	if len(ids) > 1 && (flags.attempt > 0 || flags.previous) {
		return types.Errorf(types.Invalid, "attempt: %s stands for %d tasks: name one of them, such as %s", what, len(ids), ids[0])
	}
	ctx, stop := f.WhileWritable(ctx)
	defer stop()
	v := newViewer(f, client, len(ids) > 1, flags)
	if !flags.follow || flags.attempt > 0 || flags.previous {
		return v.showStored(ctx, v.records(ids), what)
	}
	followed, err := v.follow(ctx, ids, followOptions{headers: true, waits: true, jobs: jobs, stored: len(ids) > 1})
	if err == nil {
		err = followed.missing(what)
	}
	if err != nil {
		return err
	}
	return endOf(f, followed.statuses)
}

// tasks returns the ids of the tasks that are named or selected, and the ids of named jobs. It tells
// if none are selected.
func (l *logFlags) tasks(ctx context.Context, f *cmdutil.Factory, client *controlplane.Client, names []string) (ids, jobs []string, err error) {
	if l.labels.IsZero() {
		return tasksNamed(ctx, client, names)
	}
	ids, err = f.Direct(client).Selected(ctx, l.labels.Selector, false)
	if err == nil && len(ids) == 0 {
		l.labels.TellNone(f, "task")
	}
	return ids, nil, err
}

// tasksNamed returns the ids of the named tasks, and of the tasks of named jobs; jobs are the ids of
// the latter.
func tasksNamed(ctx context.Context, client *controlplane.Client, names []string) (ids, jobs []string, err error) {
	found, err := cmdutil.FindAll(ctx, client, names, controlplane.Tasks, controlplane.Jobs)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range found {
		if n.Kind == controlplane.Jobs {
			jobs = append(jobs, n.ID)
		}
	}
	if len(found) == 1 && len(jobs) == 0 {
		return []string{found[0].ID}, nil, nil
	}
	tasks, err := cmdutil.TasksOf(ctx, client, found)
	if err != nil {
		return nil, nil, err
	}
	if len(tasks) == 0 {
		return nil, nil, types.Errorf(types.NotFound, "show what job %s wrote: there is no task of it any more: those that have ended are deleted after a while", strings.Join(jobs, ", "))
	}
	seen := make(map[string]bool)
	for _, t := range tasks {
		if !seen[t.ID] {
			ids = append(ids, t.ID)
		}
		seen[t.ID] = true
	}
	return ids, jobs, nil
}

// state describes the phase of a task, and the reason for it.
func state(t *controlplane.TaskState) string {
	text := "its phase is " + string(t.Phase())
	if t.Status.Reason != "" {
		text += ": " + t.Status.Reason
	}
	return text
}

// attempts returns the first and the last attempt to show.
func (l *logFlags) attempts(t *controlplane.TaskState) (first, last int, err error) {
	newest := t.Attempt()
	switch {
	case newest == 0 && t.Phase().Ended():
		return 0, 0, types.Errorf(types.Precondition, "show what task %s wrote: it never began: %s", t.ID, state(t))
	case newest == 0:
		return 0, 0, types.Errorf(types.Precondition, "show what task %s wrote: it has not begun yet: escher why %s says what it waits for", t.ID, t.ID)
	case l.previous:
		first = newest - 1
	case l.attempt > 0:
		first = l.attempt
	case l.tail >= 0:
		first = newest
	default:
		return 1, newest, nil
	}
	if first < 1 || first > newest {
		return 0, 0, types.Errorf(types.Precondition, "show attempt %d of task %s: it has had %d: leave --attempt and -p out for all of them", first, t.ID, newest)
	}
	return first, first, nil
}
