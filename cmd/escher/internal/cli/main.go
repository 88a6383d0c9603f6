// Package cli is the command line: one file a command, each made by a function that
// is given the Factory.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/dev"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
	"github.com/escher-sched/escher/types"
)

// Outside is the world around the process, so that tests can be one.
type Outside struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	// Executable is the path of this program.
	Executable func() (string, error)
	// Runtimes makes the runtimes of escher dev; nil is containerd.
	Runtimes dev.Runtimes
	// Terminal returns the size of the terminal behind a stream; nil asks the
	// operating system.
	Terminal func(stream any) (width, height int, ok bool)
}

// System returns the world as the operating system has it.
func System() Outside {
	return Outside{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Executable: os.Executable}
}

// sameSignal is how long after a signal another one is taken for the same: timeout(1),
// for one, signals a command and its group.
const sameSignal = 200 * time.Millisecond

// Main runs one command and returns the exit code. A first SIGINT or SIGTERM ends
// the command in order, a second one at once.
func Main(args []string, out Outside) int {
	if len(args) == 2 && args[0] == dev.LoggerSubcommand {
		// There is one beside each task, so it is to be small: it is none of the commands.
		return exitCode(tasklog.Run(args[1]), out.Err)
	}
	ctx, restore := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer restore()
	context.AfterFunc(ctx, func() { time.AfterFunc(sameSignal, restore) })
	f := &Factory{Outside: out}
	defer f.close()
	return run(ctx, f, args)
}

// run runs one command and returns the exit code.
func run(ctx context.Context, f *Factory, args []string) int {
	out := &sink{to: f.Out, full: make(chan struct{})}
	f.Out = plain{out}
	cmd := newRoot(f)
	cmd.SetArgs(args)
	err := out.outcome(cmd.ExecuteContext(ctx))
	if ctx.Err() != nil && isInterruption(err) {
		return types.ExitInterrupted
	}
	return exitCode(err, f.Err)
}

// isInterruption reports whether an error tells nothing but that the command was
// interrupted.
func isInterruption(err error) bool {
	if errors.Is(err, context.Canceled) {
		return true
	}
	class := types.ClassOf(err)
	_, isEnd := errors.AsType[ended](err)
	return err != nil && !isEnd && (class == types.Unavailable || class == types.Unknown)
}

// ended says that a command ends with the exit code of a task, which has been said
// already or is nothing to be said about.
type ended struct{ code int }

func (e ended) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// exitCode prints an error, if there is something to print, and returns the exit
// code that goes with it.
func exitCode(err error, w io.Writer) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[ended](err); ok {
		return e.code
	}
	fmt.Fprintf(w, "escher: %s\n", table.Plain(err.Error()))
	class := types.ClassOf(err)
	if hint := hints(class); hint != "" {
		fmt.Fprintf(w, "escher: %s\n", hint)
	}
	return class.ExitCode()
}

// hints says what to do about errors that no one foresaw, or whose outcome is not
// known: the others end with it.
func hints(class types.Class) string {
	switch class {
	case types.Internal:
		return "this should not happen: please report it, with the command and what escher version prints"
	case types.Unknown:
		return "it may have been done: look, with escher ps or escher state, before you do it again"
	}
	return ""
}
