package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/types"
)

// TestExitCode prints every error once, with its remedy, and exits by its class.
func TestExitCode(t *testing.T) {
	for _, test := range []struct {
		err  error
		code int
		says string
	}{
		{nil, 0, ""},
		{cmdutil.Ended{Code: 7}, 7, ""},
		{types.Errorf(types.Invalid, "x: is wrong: give y"), 2, "escher: x: is wrong: give y\n"},
		{errors.New("boom"), 1, "escher: boom\nescher: this should not happen: please report it"},
		{types.Errorf(types.Unknown, "commit: no answer"), 8, "escher: commit: no answer\nescher: it may have been done: look"},
	} {
		var out strings.Builder
		if code := exitCode(new(cobra.Command), test.err, &out, false); code != test.code || !strings.HasPrefix(out.String(), test.says) || (out.Len() > 0) != (test.says != "") {
			t.Errorf("%v: %d, %q", test.err, code, out.String())
		}
	}
}

// TestExitCodeWithTask exits with 125 for failures of commands that end with the code of a task, and
// names the class.
func TestExitCodeWithTask(t *testing.T) {
	always, attached := cmdutil.EndsWithTask(new(cobra.Command), ""), cmdutil.EndsWithTask(new(cobra.Command), "attach")
	attached.Flags().Bool("attach", false, "")
	detached := cmdutil.EndsWithTask(new(cobra.Command), "attach")
	detached.Flags().Bool("attach", false, "")
	if err := attached.Flags().Set("attach", "true"); err != nil {
		t.Fatal(err)
	}
	err := types.Errorf(types.NotFound, "find task x: there is none: see escher ps")
	for _, test := range []struct {
		cmd    *cobra.Command
		err    error
		asJSON bool
		code   int
		says   string
	}{
		{always, err, false, 125, "escher: find task x: there is none: see escher ps\nescher: exit code 125: escher failed, not the task: not found\n"},
		{attached, err, true, 125, `{"class":"not found","error":"find task x: there is none: see escher ps","exitCode":125}` + "\n"},
		{detached, err, false, 3, "escher: find task x: there is none: see escher ps\n"},
		{always, cmdutil.Ended{Code: 3}, true, 3, ""},
		{always, errors.New("boom"), true, 125, `{"class":"internal","error":"boom","hint":"this should not happen: please report it, with the command and what escher version prints","exitCode":125}` + "\n"},
	} {
		var out strings.Builder
		if code := exitCode(test.cmd, test.err, &out, test.asJSON); code != test.code || out.String() != test.says {
			t.Errorf("%v: exit code %d, want %d: %q", test.err, code, test.code, out.String())
		}
	}
}

// TestHugeError cuts an error that repeats a huge input, and keeps its field and its remedy.
func TestHugeError(t *testing.T) {
	var out strings.Builder
	exitCode(new(cobra.Command), types.Errorf(types.Invalid, "share: %q names no user: write alice\nand a second line", strings.Repeat("ä", 100_000)), &out, false)
	text := out.String()
	if len(text) > maxLine+100 || !utf8.ValidString(text) || !strings.HasPrefix(text, `escher: share: "ä`) || !strings.HasSuffix(text, "names no user: write alice\nand a second line\n") {
		t.Errorf("%d bytes: %.100q", len(text), text)
	}
}

// TestInterruption prints nothing for an error that is only an interruption.
func TestInterruption(t *testing.T) {
	for err, quiet := range map[error]bool{
		types.Errorf(types.Unavailable, "wait: %w", context.Canceled):  true,
		types.Errorf(types.Unknown, "commit: no answer"):               true,
		types.Errorf(types.Precondition, "stop: containerd is broken"): false,
		cmdutil.Ended{Code: 3}: false,
	} {
		if cmdutil.IsInterruption(err) != quiet {
			t.Errorf("%v: quiet is %t", err, !quiet)
		}
	}
}
