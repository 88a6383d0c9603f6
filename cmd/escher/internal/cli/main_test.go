package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

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
		if code := exitCode(test.err, &out); code != test.code || !strings.HasPrefix(out.String(), test.says) || (out.Len() > 0) != (test.says != "") {
			t.Errorf("%v: %d, %q", test.err, code, out.String())
		}
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
