package run

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// followServed shows the output of one task, by the HTTP API, and returns the statuses of tasks once
// they have ended. It only waits for several.
func followServed(ctx context.Context, f *cmdutil.Factory, tasks cmdutil.Tasks, ids []string) (map[string]types.Status, error) {
	if len(ids) > 1 {
		f.Tell("waiting for the end of %s: escher logs TASK shows the output of one", strings.Join(ids, ", "))
		return tasks.Wait(ctx, controlplane.UntilEnded, ids...)
	}
	done := f.Progress("waiting for " + ids[0] + " to run")
	begun, err := tasks.Wait(ctx, controlplane.UntilRunning, ids...)
	done()
	if err != nil {
		return nil, err
	}
	if begun[ids[0]].Started != 0 { // else it was cancelled, or failed to start
		if err := printLog(ctx, f, ids[0], 0, -1, true); err != nil {
			return nil, err
		}
	}
	return tasks.Wait(ctx, controlplane.UntilEnded, ids...)
}

// printLog prints the output of an attempt of a task, by the HTTP API; 0 means the newest. A negative
// tail means all lines.
func printLog(ctx context.Context, f *cmdutil.Factory, id string, attempt, tail int, follow bool) error {
	c, err := f.API(ctx)
	if err != nil {
		return err
	}
	query := url.Values{"follow": {strconv.FormatBool(follow)}}
	if attempt > 0 {
		query.Set("attempt", strconv.Itoa(attempt))
	}
	if tail >= 0 {
		query.Set("tail", strconv.Itoa(tail))
	}
	res, err := c.Send(ctx, http.MethodGet, f.Path("tasks", id, "logs")+"?"+query.Encode(), "", nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(f.Raw(), res.Body); err != nil && ctx.Err() == nil {
		return types.Errorf(types.Unavailable, "read the output of %s: %w: escher logs %s goes on", id, err, id)
	}
	return ctx.Err()
}
