package containerd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"

	"github.com/escher-sched/escher/types"
)

// native converts errors of the raw services to the form that errdefs knows.
func native(err error) error {
	if err == nil {
		return nil
	}
	return errgrpc.ToNative(err)
}

// classify adds a class and the failed action to an error of containerd. If the error is not
// certain, the class is Unavailable.
func classify(err error, format string, args ...any) error {
	if _, ok := errors.AsType[*types.Error](err); ok {
		return err
	}
	class := types.Unavailable
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case errdefs.IsNotFound(err):
		class = types.NotFound
	case errdefs.IsInvalidArgument(err):
		class = types.Invalid
	}
	return types.Errorf(class, "%s: %w", fmt.Sprintf(format, args...), err)
}

// reason is a message of runc for a container that can never start.
type reason struct {
	text   string
	class  types.Class
	remedy string
}

// reasons returns the known messages. runc has no error codes.
func reasons() []reason {
	return []reason{
		{"executable file not found in $PATH", types.NotFound, "name a command that is in the image"},
		{"permission denied: unknown", types.Invalid, "the command must be executable by the task's user"},
		{"no such file or directory: unknown", types.NotFound, "name a command and directory that are in the image"},
		{"is a directory: unknown", types.Invalid, "name a command that is a file"},
		{"exec format error", types.Invalid, "the command must be a program for this machine's processor"},
		{"not a directory", types.Invalid, "a path in the way is a file"},
		{"error setting rlimit", types.Invalid, "the node allows no more: ask for a lower ulimit, or raise the limits of its containerd"},
		{"container init was OOM-killed", types.Invalid, "raise the memory limit"},
	}
}

// refused classifies a failure to make or start a process. The second result reports whether the
// runtime answered: then no process runs.
func refused(err error, id string) (error, bool) {
	known := !errdefs.IsUnavailable(err) && !errdefs.IsDeadlineExceeded(err) && !errdefs.IsCanceled(err) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) &&
		!errdefs.IsAlreadyExists(err) && !strings.Contains(err.Error(), "ttrpc")
	if never := impossible(err, "start container "+id); never != nil {
		return never, true
	}
	return types.Errorf(types.Unavailable, "start container %s: %w", id, err), known
}

// impossible returns why runc can never do an action; nil if it may. what describes the action.
func impossible(err error, what string) error {
	text := err.Error()
	if !strings.Contains(text, "OCI runtime") {
		return nil
	}
	for _, r := range reasons() {
		if strings.Contains(text, r.text) {
			// The chain of calls is of no use to the owner of the command.
			if i := strings.LastIndex(text, runcBegins); i >= 0 {
				text = text[i+len(runcBegins):]
			}
			return types.Errorf(r.class, "%s: %s; %s", what, namedLimit(strings.TrimSuffix(text, ": unknown")), r.remedy)
		}
	}
	return nil
}

// runcBegins is runc's text before the reason.
const runcBegins = "unable to start container process: "
