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

// native gives errors of the raw services the form that errdefs knows.
func native(err error) error {
	if err == nil {
		return nil
	}
	return errgrpc.ToNative(err)
}

// classify gives an error of containerd its class and says what was being done.
// What containerd does not say for certain is Unavailable: not known.
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

// reason is a text that runc reports when a container can never start.
type reason struct {
	text   string
	class  types.Class
	remedy string
}

// reasons are looked for in what runc says: it has no codes.
func reasons() []reason {
	return []reason{
		{"executable file not found in $PATH", types.NotFound, "name a command that is in the image"},
		{"permission denied: unknown", types.Invalid, "the command must be executable by the task's user"},
		{"no such file or directory: unknown", types.NotFound, "name a command and directory that are in the image"},
		{"is a directory: unknown", types.Invalid, "name a command that is a file"},
		{"exec format error", types.Invalid, "the command must be a program for this machine's processor"},
		{"not a directory", types.Invalid, "a path in the way is a file"},
		{"container init was OOM-killed", types.Invalid, "raise the memory limit"},
	}
}

// refused classifies the failure to make or start a process. The second result
// tells that the runtime answered: no process runs.
func refused(err error, id string) (error, bool) {
	known := !errdefs.IsUnavailable(err) && !errdefs.IsDeadlineExceeded(err) && !errdefs.IsCanceled(err) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) &&
		!errdefs.IsAlreadyExists(err) && !strings.Contains(err.Error(), "ttrpc")
	if !strings.Contains(err.Error(), "OCI runtime") {
		return types.Errorf(types.Unavailable, "start container %s: %w", id, err), known
	}
	for _, r := range reasons() {
		if strings.Contains(err.Error(), r.text) {
			return types.Errorf(r.class, "start container %s: %w; %s", id, err, r.remedy), true
		}
	}
	return types.Errorf(types.Unavailable, "start container %s: %w", id, err), known
}
