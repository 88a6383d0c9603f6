package bench

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

// apiChanges is how many of the followed tasks change.
const apiChanges = 200

// measureWatchers follows tasks, one by each watcher, and measures the time from a change of a task to its event.
func measureWatchers(ctx context.Context, c *rig.Cluster, web *http.Client, address string, found rig.Figures) error {
	n := min(apiWatchers, c.Config.Tasks)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	events := make(chan int, n)
	var synced atomic.Int64
	all := make(chan struct{})
	g, streams := errgroup.WithContext(ctx)
	opening := make(chan struct{}, 64)
	for i := range n {
		g.Go(func() error {
			opening <- struct{}{}
			return followTask(streams, web, fmt.Sprintf("http://%s/v1/namespaces/%s/watch?id=%s", address, rig.Namespace, rig.TaskName(i)), func() {
				<-opening
				if synced.Add(1) == int64(n) {
					close(all)
				}
			}, func() { events <- i })
		})
	}
	select {
	case <-all:
	case <-streams.Done():
		return g.Wait()
	}
	var took rig.Durations
	for i := range min(apiChanges, n) {
		err := took.Time(func() error {
			if err := change(ctx, c, rig.TaskName(i)); err != nil {
				return err
			}
			for {
				select {
				case got := <-events:
					if got == i {
						return nil
					}
				case <-streams.Done():
					return g.Wait()
				}
			}
		})
		if err != nil {
			return err
		}
	}
	found["watchers"], found["watch_p50_ms"], found["watch_p99_ms"] = float64(n), took.Quantile(0.5), took.Quantile(0.99)
	err := c.AddMemory(found)
	stop()
	_ = g.Wait() // the streams end because of stop
	return err
}

// followTask follows server-sent events until ctx is done.
func followTask(ctx context.Context, web *http.Client, url string, synced, changed func()) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return types.Errorf(types.Internal, "follow: %w", err)
	}
	answer, err := web.Do(r)
	if err != nil {
		return types.Errorf(types.Unavailable, "follow: %w", err)
	}
	defer answer.Body.Close()
	first := true
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		switch event, _ := strings.CutPrefix(lines.Text(), "event: "); {
		case event == "synced" && first:
			first = false
			synced()
		case event == "task" && !first:
			changed()
		case event == "error":
			return types.Errorf(types.Unavailable, "follow %s: it ended", url)
		}
	}
	return ctx.Err()
}

// change changes what the status of a task says.
func change(ctx context.Context, c *rig.Cluster, id string) error {
	kv, err := controlplane.Get(ctx, c.Store, controlplane.StatusKey(rig.Namespace, id))
	if err != nil {
		return err
	}
	var status types.Status
	if err := types.Decode(kv.Value, &status); err != nil {
		return err
	}
	status.Reason = "changed"
	_, err = c.Put(ctx, kv.Key, &status)
	return err
}
