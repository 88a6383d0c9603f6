package run

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

const logsHelp = `Prints the output of all attempts of a task, on any node; a line on the error output
announces each further attempt. For a job it prints the output of all tasks, with the
task before each line.

With -f it follows the task across attempts, restarts and nodes until the task has ended,
and ends with its exit code. Ctrl-C ends the command, and not the task.

  escher logs TASK                  all output that is stored
  escher logs --tail 20 -f TASK     the last lines, and new ones
  escher logs --attempt 2 TASK      one attempt; -p is the one before the last`

// logFlags select a part of a log.
type logFlags struct {
	follow, previous bool
	attempt, tail    int
}

// NewLogs returns the command that shows the output of tasks.
func NewLogs(f *cmdutil.Factory) *cobra.Command {
	var flags logFlags
	cmd := &cobra.Command{
		Use:   "logs TASK|JOB",
		Short: "Print the output of a task or job",
		Long:  logsHelp,
		Args:  cmdutil.Exactly("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.validate(cmd); err != nil {
				return err
			}
			return logs(cmd.Context(), f, args[0], flags)
		},
	}
	set := cmd.Flags()
	set.BoolVarP(&flags.follow, "follow", "f", false, "follow the output until the task has ended")
	set.IntVar(&flags.attempt, "attempt", 0, "only this attempt; default: all")
	set.BoolVarP(&flags.previous, "previous", "p", false, "only the attempt before the last")
	set.IntVar(&flags.tail, "tail", -1, "number of last lines, of the last attempt only; default: all lines of all attempts")
	return cmd
}

func (l *logFlags) validate(cmd *cobra.Command) error {
	switch {
	case cmd.Flags().Changed("attempt") && l.attempt < 1:
		return types.Errorf(types.Invalid, "attempt: %d is none: give a number from 1 on", l.attempt)
	case cmd.Flags().Changed("tail") && l.tail < 0:
		return types.Errorf(types.Invalid, "tail: %d is negative: give how many lines to show", l.tail)
	case l.attempt > 0 && l.previous:
		return types.Errorf(types.Invalid, "previous: excludes --attempt: give one of them")
	}
	return nil
}

func logs(ctx context.Context, f *cmdutil.Factory, name string, flags logFlags) error {
	client, err := f.Client(ctx)
	if err != nil {
		if dir, bad := f.Dir(); bad == nil && types.Is(err, types.Unavailable) {
			return types.Errorf(types.ClassOf(err), "%w; of a cluster that does not run, what its tasks wrote is below %s/agents/NODE/logs", err, dir)
		}
		return err
	}
	ids, err := tasksNamed(ctx, client, name)
	if err != nil {
		return err
	}
	single := len(ids) == 1
	if !single && (flags.attempt > 0 || flags.previous) {
		return types.Errorf(types.Invalid, "attempt: %s is a job of %d tasks: name one of them: escher ps -a --job %s", name, len(ids), name)
	}
	ctx, stop := f.WhileWritable(ctx)
	defer stop()
	if flags.follow && flags.attempt == 0 && !flags.previous {
		statuses, err := followFrom(f, ctx, client, ids, followOptions{tail: flags.tail, headers: true})
		if err != nil {
			return err
		}
		return endOf(f, statuses)
	}
	lines := cmdutil.NewConsole(f, len(ids) > 1)
	for _, id := range ids {
		out := lines.Of(id)
		if err := showLogs(ctx, f, client, id, flags, single, out); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// tasksNamed returns the ids of the task, or of the tasks of the job, whose id is name or begins
// with it.
func tasksNamed(ctx context.Context, client *controlplane.Client, name string) ([]string, error) {
	found, err := cmdutil.Find(ctx, client, name, controlplane.Tasks, controlplane.Jobs)
	if err != nil || found.Kind == controlplane.Tasks {
		return []string{found.ID}, err
	}
	tasks, err := cmdutil.TasksOf(ctx, client, []cmdutil.Named{found})
	if err != nil {
		return nil, err
	}
	if len(tasks) == 0 {
		return nil, types.Errorf(types.NotFound, "show what job %s wrote: there is no task of it any more: those that have ended are deleted after a while", found.ID)
	}
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	return ids, nil
}

// showLogs shows the output of a task so far. With single, it is an error if there is none.
func showLogs(ctx context.Context, f *cmdutil.Factory, client *controlplane.Client, id string, flags logFlags, single bool, out io.Writer) error {
	t, err := client.Status(ctx, id)
	if err != nil {
		return err
	}
	first, last, err := flags.attempts(&t)
	if err != nil {
		if single {
			return err
		}
		return nil // Others of the job have begun.
	}
	nodes, away := map[int]string{t.Attempt(): t.Status.Node}, []string(nil)
	if first < t.Attempt() {
		if nodes, away, err = f.WhereLogged(ctx, client.Namespace(), id); err != nil {
			return err
		}
	}
	shown := 0
	for n := first; n <= last; n++ {
		if nodes[n] == "" {
			continue
		}
		if t.Attempt() > 1 && first < last {
			f.Tell("attempt %d of %s, on %s", n, id, nodes[n])
		}
		log := nodeapi.Log{Namespace: client.Namespace(), Task: id, Attempt: n, Tail: flags.tail}
		switch err := readLog(f, ctx, &log, nodes[n], out, flags.follow); {
		case err == nil:
			shown++
		case !types.Is(err, types.NotFound) || single && first == last:
			return err
		}
	}
	if len(away) > 0 && shown < last-first+1 {
		f.Tell("%d of %d attempts of %s have no output here; these nodes did not answer: %s", last-first+1-shown, last-first+1, id, strings.Join(away, ", "))
	}
	if shown == 0 && single {
		return types.Errorf(types.NotFound, "show what task %s wrote: no node has any of it: escher describe %s says what became of it", id, id)
	}
	return nil
}

// attempts returns the first and the last attempt to show.
func (l *logFlags) attempts(t *controlplane.TaskState) (first, last int, err error) {
	newest := t.Attempt()
	switch {
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

// readLog copies the output of an attempt.
func readLog(f *cmdutil.Factory, ctx context.Context, log *nodeapi.Log, node string, out io.Writer, follow bool) error {
	return f.OnNode(ctx, node, func(c *nodeapi.Client) error {
		gap, err := log.Read(ctx, c, out, follow)
		if gap {
			f.Tell("some of the output of %s is lost: node %s keeps only the end of a long log", log.Task, node)
		}
		return err
	})
}
