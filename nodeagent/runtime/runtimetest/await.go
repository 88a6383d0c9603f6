package runtimetest

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/escher-sched/escher/types"
)

// lookAgain is the interval between the tries of Await.
const lookAgain = 20 * time.Millisecond

// Await calls ask until it returns no error, for changes that happen without notice. It fails t
// when that takes too long.
func Await[V any](t *testing.T, ask func(ctx context.Context) (V, error)) V {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	v, err := backoff.Retry(ctx, func() (V, error) { return ask(ctx) },
		backoff.WithBackOff(backoff.NewConstantBackOff(lookAgain)), backoff.WithMaxElapsedTime(0))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// AwaitLog returns the content of the log at path once it contains text.
func AwaitLog(t *testing.T, path, text string) string {
	t.Helper()
	return Await(t, func(context.Context) (string, error) {
		got, err := os.ReadFile(path)
		if err == nil && !strings.Contains(string(got), text) {
			err = types.Errorf(types.NotFound, "find %q in log %s: it has %q", text, path, got)
		}
		return string(got), err
	})
}
