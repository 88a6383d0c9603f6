// Package cli is the command line. Each package below it holds the commands about one noun, a file
// each. Functions make them from the Factory of package cmdutil.
package cli

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/dev"
	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
	"github.com/escher-sched/escher/types"
)

// sameSignal is how long after a signal another one counts as the same: timeout(1), for one,
// signals a command and its group.
const sameSignal = 200 * time.Millisecond

// Main runs one command and returns the exit code. A first SIGINT or SIGTERM stops the command
// gracefully, a second one at once.
func Main(args []string, out cmdutil.Outside) int {
	if len(args) == 2 && args[0] == dev.LoggerSubcommand {
		// One runs for each task. It skips the commands, so that it stays small.
		return exitCode(new(cobra.Command), tasklog.Run(args[1]), out.Err, false)
	}
	ctx, restore := cmdutil.Interruptible(context.Background())
	defer restore()
	context.AfterFunc(ctx, func() { time.AfterFunc(sameSignal, restore) })
	f := &cmdutil.Factory{Outside: out}
	defer f.Close()
	return runCommand(ctx, f, args)
}

// runCommand runs one command and returns the exit code.
func runCommand(ctx context.Context, f *cmdutil.Factory, args []string) int {
	out := &cmdutil.Sink{To: f.Out, Full: make(chan struct{})}
	f.Out = cmdutil.Plain{To: out}
	cmd := newRoot(f)
	if slices.Contains(args, cobra.ShellCompRequestCmd) || slices.Contains(args, cobra.ShellCompNoDescRequestCmd) {
		addCompletion(f, cmd) // It costs more than the rest of newRoot.
	}
	cmd.SetArgs(args)
	ran, err := cmd.ExecuteContextC(ctx)
	err = out.Outcome(err)
	if ctx.Err() != nil && cmdutil.IsInterruption(err) {
		return cmdutil.InterruptedCode(ctx)
	}
	return exitCode(ran, err, f.Err, f.Format == table.JSON)
}

// exitCode prints the error of a command, if there is anything to print, and returns its exit code.
func exitCode(cmd *cobra.Command, err error, w io.Writer, asJSON bool) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[cmdutil.Ended](err); ok {
		return e.Code
	}
	text := shortLines(table.Plain(types.Render(err, howto.Say)))
	failure := cmdutil.NewFailure(cmd, err, text, hints(types.ClassOf(err)))
	failure.Print(w, asJSON)
	return failure.ExitCode
}

// maxLine is the longest line of an error, in bytes. A longer one repeats a huge input.
const maxLine = 2 << 10

// shortLines cuts the middle of long lines. The end of an error is its remedy.
func shortLines(text string) string {
	if len(text) <= maxLine {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if len(l) > maxLine {
			lines[i] = types.Cut(l, maxLine-maxLine/4) + " " + strings.ToValidUTF8(l[len(l)-maxLine/4:], "")
		}
	}
	return strings.Join(lines, "\n")
}

// hints says what to do about unforeseen errors, and those of unknown outcome. Other errors say it
// themselves.
func hints(class types.Class) string {
	switch class {
	case types.Internal:
		return "this should not happen: please report it, with the command and what escher version prints"
	case types.Unknown:
		return "it may have been done: look, with escher ps or escher state, before you do it again"
	}
	return ""
}
