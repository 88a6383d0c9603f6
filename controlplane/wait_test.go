package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.task("web-1", "", 0)
		w.task("web-2", types.Running, 1)
		w.task("over-1", types.Succeeded, 1)
		for i, c := range []struct {
			until controlplane.Until
			after time.Duration
		}{{controlplane.UntilBound, 1 * time.Second}, {controlplane.UntilRunning, 2 * time.Second}, {controlplane.UntilEnded, 3 * time.Second}} {
			begun := time.Now()
			go func() {
				w.status("web-1", types.Pending, i)
				time.Sleep(time.Second)
				w.status("web-1", types.Bound, i+1)
				time.Sleep(time.Second)
				w.status("web-1", types.Running, i+1)
				time.Sleep(time.Second)
				w.status("web-1", types.Failed, i+1)
			}()
			synctest.Wait()
			if i == 2 {
				w.status("web-2", types.Cancelled, 1)
			}
			got, err := w.Wait(t.Context(), c.until, "web-1", "web-2", "over")
			if err != nil || len(got) != 3 || time.Since(begun) != c.after {
				t.Errorf("until %d: %v, %v, after %s", c.until, got, err, time.Since(begun))
			}
			time.Sleep(time.Minute)
		}
	})
}

// TestWaitUntilHealthy checks that a running task is healthy if its checks pass or it has none.
func TestWaitUntilHealthy(t *testing.T) {
	for name, c := range map[string]struct {
		status types.Status
		want   bool
	}{
		"bound":     {types.Status{Phase: types.Bound}, false},
		"starting":  {types.Status{Phase: types.Running, Health: types.HealthStarting}, false},
		"unhealthy": {types.Status{Phase: types.Running, Health: types.Unhealthy}, false},
		"healthy":   {types.Status{Phase: types.Running, Health: types.Healthy}, true},
		"no checks": {types.Status{Phase: types.Running}, true},
		"ended":     {types.Status{Phase: types.Failed}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.task("web-1", "", 0)
			w.put(controlplane.StatusKey("team", "web-1"), &c.status)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := w.Wait(ctx, controlplane.UntilHealthy, "web-1"); (err == nil) != c.want {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

func TestWaitForAnyNumberWatchesTwiceAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		counted := &counting{Store: w.store}
		c, err := controlplane.New(counted, "team")
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for i := range 50 {
			ids = append(ids, fmt.Sprintf("web-%02d", i))
			w.task(ids[i], types.Running, 1)
		}
		var wg sync.WaitGroup
		for _, id := range ids {
			wg.Go(func() {
				if got, err := c.Wait(t.Context(), controlplane.UntilEnded, id); err != nil || got[id].Phase != types.Succeeded {
					t.Errorf("%s: %v, %v", id, got, err)
				}
			})
		}
		wg.Go(func() {
			if got, err := c.Wait(t.Context(), controlplane.UntilEnded, ids...); err != nil || len(got) != 50 {
				t.Errorf("%d, %v", len(got), err)
			}
		})
		synctest.Wait()
		for _, id := range ids {
			w.status(id, types.Succeeded, 1)
		}
		wg.Wait()
		if n := len(counted.prefixes); n > 2 {
			t.Errorf("there were %d watches", n)
		}
	})
}

// TestWaitForOneReadsOne checks that a waiter for one of many tasks does not receive the others.
func TestWaitForOneReadsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		counted := &counting{Store: w.store}
		c, err := controlplane.New(counted, "team")
		if err != nil {
			t.Fatal(err)
		}
		w.task("web", types.Running, 1)
		w.task("web-1", types.Succeeded, 1)
		var wg sync.WaitGroup
		wg.Go(func() {
			if got, err := c.Wait(t.Context(), controlplane.UntilEnded, "web"); err != nil || len(got) != 1 {
				t.Errorf("%v, %v", got, err)
			}
		})
		synctest.Wait()
		w.status("web", types.Succeeded, 1)
		wg.Wait()
		if want := []string{controlplane.StatusKey("team", "web")}; !slices.Equal(counted.prefixes, want) {
			t.Errorf("watched %q, want %q", counted.prefixes, want)
		}
	})
}

// counting counts watches.
type counting struct {
	controlplane.Store
	mu       sync.Mutex
	prefixes []string
}

func (c *counting) Watch(ctx context.Context, opts controlplane.WatchOptions) <-chan controlplane.Batch {
	c.mu.Lock()
	c.prefixes = append(c.prefixes, opts.Prefix)
	c.mu.Unlock()
	return c.Store.Watch(ctx, opts)
}

func TestWaitEndsOtherwise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.task("web-1", types.Running, 1)
		w.task("over-1", types.Succeeded, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got, err := w.Wait(ctx, controlplane.UntilEnded, "web-1", "over-1")
		if !types.Is(err, types.Unavailable) || !errors.Is(err, context.DeadlineExceeded) || len(got) != 1 {
			t.Errorf("%v, %v", got, err)
		}
		go func() {
			time.Sleep(time.Second)
			w.delete(controlplane.StatusKey("team", "web-1"))
		}()
		if _, err := w.Wait(t.Context(), controlplane.UntilEnded, "web-1"); !types.Is(err, types.NotFound) {
			t.Errorf("got %v", err)
		}
		if _, err := w.Wait(t.Context(), controlplane.UntilEnded, "none"); !types.Is(err, types.NotFound) {
			t.Errorf("got %v", err)
		}
		if got, err := w.Wait(t.Context(), controlplane.UntilEnded); err != nil || len(got) != 0 {
			t.Errorf("%v, %v", got, err)
		}
	})
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.task("web-1", types.Bound, 1)
		w.task("web-2", types.Bound, 1)
		follow := func(opts controlplane.WatchTasks, do func()) (story string, last int64) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() {
				ended <- w.Watch(ctx, opts, func(u controlplane.StatusUpdate) error {
					for _, c := range u.Changes {
						phase := types.Phase("gone")
						if c.Status != nil {
							phase = c.Status.Phase
						}
						story += fmt.Sprintf("%s %s, ", c.ID, phase)
					}
					last = u.Revision
					return nil
				})
			}()
			synctest.Wait()
			do()
			synctest.Wait()
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			return story, last
		}
		story, last := follow(controlplane.WatchTasks{}, func() {
			w.status("web-1", types.Running, 1)
			w.status("web-1", types.Failed, 1)
			w.delete(controlplane.StatusKey("team", "web-1"))
		})
		if want := "web-1 bound, web-2 bound, web-1 running, web-1 failed, web-1 gone, "; story != want {
			t.Errorf("got %s, want %s", story, want)
		}
		w.status("web-2", types.Running, 1)
		w.task("web-3", types.Bound, 1)
		w.task("web-4", types.Bound, 1)
		// A resumed watch delivers newer changes in order.
		story, _ = follow(controlplane.WatchTasks{After: last}, func() { w.status("web-2", types.Failed, 1) })
		if want := "web-2 running, web-3 bound, web-4 bound, web-2 failed, "; story != want {
			t.Errorf("got %s, want %s", story, want)
		}
		story, _ = follow(controlplane.WatchTasks{IDs: []string{"web-3"}}, func() { w.status("web-4", types.Failed, 1) })
		if want := "web-3 bound, "; story != want {
			t.Errorf("got %s, want %s", story, want)
		}
		enough := errors.New("enough")
		if err := w.Watch(t.Context(), controlplane.WatchTasks{}, func(controlplane.StatusUpdate) error { return enough }); !errors.Is(err, enough) {
			t.Errorf("got %v", err)
		}
	})
}
