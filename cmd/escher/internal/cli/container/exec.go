// Package container holds the commands that reach into containers: exec, cp, kill, port-forward.
package container

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/run"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

const execHelp = `Runs another command in the container of a running task, and ends with its exit code. If
escher exec ends first, the command in the container is killed.

  escher exec web -- ls /data
  escher exec -it web -- sh                  a shell
  escher exec -i web -- tar -x < files.tar   with an input`

// execFlags say how to run a command.
type execFlags struct {
	input, tty bool
	env        []string
	dir, user  string
}

// NewExec returns the command that runs commands in containers.
func NewExec(f *cmdutil.Factory) *cobra.Command {
	var flags execFlags
	cmd := cmdutil.EndsWithTask(&cobra.Command{
		Use:   "exec TASK -- COMMAND...",
		Short: "Run a command in the container of a task",
		Long:  execHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return types.Errorf(types.Invalid, "TASK: is missing: %s", cmdutil.Usage(cmd))
			case len(args) == 1 || len(args) == 2 && args[1] == "--":
				return types.Errorf(types.Invalid, "COMMAND: is missing: %s", cmdutil.Usage(cmd))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			command := args[1:]
			if command[0] == "--" {
				command = command[1:]
			}
			return flags.run(cmd.Context(), f, args[0], command)
		},
	}, "")
	set := cmd.Flags()
	// Flags after the task belong to the command.
	set.SetInterspersed(false)
	set.BoolVarP(&flags.input, "interactive", "i", false, "pass the input of escher exec to it")
	set.BoolVarP(&flags.tty, "tty", "t", false, "give it a terminal")
	set.StringArrayVarP(&flags.env, "env", "e", nil, "NAME=value, or NAME for its value here, added to the environment of the task; repeat for several")
	set.StringVarP(&flags.dir, "workdir", "w", "", "working directory; default: that of the task")
	set.StringVarP(&flags.user, "user", "u", "", "uid[:gid], or the name of a user in the image; default: that of the task")
	return cmd
}

func (e *execFlags) run(ctx context.Context, f *cmdutil.Factory, name string, command []string) error {
	env, err := run.Variables(f, "env", e.env)
	if err != nil {
		return err
	}
	on, err := runningTask(f, ctx, name)
	if err != nil {
		return err
	}
	defer on.client.Close()
	p := nodeagent.Process{Command: command, Env: env, Dir: e.dir, User: e.user, TTY: e.tty, Stdout: f.Raw(), Stderr: f.Err}
	if e.input {
		p.Stdin = f.In
	}
	if e.tty {
		restore, sizes, err := e.terminal(f, &p)
		if err != nil {
			return err
		}
		defer restore()
		p.Resize = sizes
	}
	code, err := on.client.Exec(ctx, on.ns, on.id, on.attempt, p)
	switch {
	case types.Is(err, types.NotFound):
		f.Tell("%v", err)
		return cmdutil.Ended{Code: cmdutil.ExitNotFound}
	case types.Is(err, types.Invalid):
		f.Tell("%v", err)
		return cmdutil.Ended{Code: cmdutil.ExitCannotRun}
	case err != nil:
		return err
	case code != 0:
		return cmdutil.Ended{Code: code}
	}
	return nil
}

// terminal passes every key to the command, and the size of the terminal, until restore is called.
func (e *execFlags) terminal(f *cmdutil.Factory, p *nodeagent.Process) (restore func(), sizes <-chan nodeagent.Size, err error) {
	if kind := f.Getenv("TERM"); kind != "" {
		p.Env = append([]string{"TERM=" + kind}, p.Env...)
	}
	raw := func() {}
	if e.input {
		if raw, err = f.RawInput(); err != nil {
			return nil, nil, err
		}
	}
	sizes, stop := f.TerminalSizes()
	return func() {
		stop()
		raw()
	}, sizes, nil
}

// onTask is the attempt of a running task, with the client of its node.
type onTask struct {
	client  *nodeapi.Client
	ns, id  string
	attempt int
	spec    string // its digest
}

// runningTask finds a running task; the caller closes the client. Precondition: it does not run.
func runningTask(f *cmdutil.Factory, ctx context.Context, name string) (onTask, error) {
	client, err := f.Client(ctx)
	if err != nil {
		return onTask{}, err
	}
	t, err := cmdutil.OneTask(ctx, client, name)
	if err != nil {
		return onTask{}, err
	}
	if t.Phase() != types.Running {
		return onTask{}, notRunning(&t, "enter")
	}
	c, err := f.Node(ctx, t.Status.Node)
	return onTask{client: c, ns: client.Namespace(), id: t.ID, attempt: t.Attempt(), spec: t.Task.Spec}, err
}

// notRunning describes the state of a task that should run, and what to do. verb is the failed
// action.
func notRunning(t *controlplane.TaskState, verb string) error {
	remedy := "escher wait --until running " + t.ID + " returns when it runs; escher why " + t.ID + " says what it waits for"
	if t.Phase().Ended() {
		remedy = "what it wrote is in escher logs " + t.ID
	}
	return types.Errorf(types.Precondition, "%s task %s: it does not run, it is %s: %s", verb, t.ID, t.Phase(), remedy)
}
