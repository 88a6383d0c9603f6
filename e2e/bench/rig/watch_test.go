package rig

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

func newTestWatcher() *Watcher {
	return &Watcher{puts: make(map[string]int), deletes: make(map[string]int), news: make(chan struct{})}
}

func batch(keys ...string) controlplane.Batch {
	var b controlplane.Batch
	for _, key := range keys {
		put, deleted := strings.CutPrefix(key, "-")
		b.Events = append(b.Events, controlplane.Event{KV: controlplane.KV{Key: put}, Delete: deleted})
	}
	return b
}

// TestWatcher counts puts and deletes by kind, and returns when there are enough.
func TestWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, seen := newTestWatcher(), 0
		w.each = func(b controlplane.Batch) { seen += len(b.Events) }
		binding := controlplane.BindingKey("n", "a", "t", 1)
		go func() {
			w.count(controlplane.Batch{Revision: 3})
			w.count(batch(binding, controlplane.StatusKey("a", "t")))
			w.count(batch(binding, "-"+binding))
		}()
		if _, err := w.Until(t.Context(), controlplane.Bindings, 2); err != nil {
			t.Fatal(err)
		}
		puts, deletes := w.counted()
		if puts["bindings"] != 2 || puts["status"] != 1 || deletes["bindings"] != 1 || seen != 4 {
			t.Errorf("counted %v and %v of %d", puts, deletes, seen)
		}
	})
}

// TestWatcherGivesUp when nothing changes any more, the watch ends, or the context does.
func TestWatcherGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWatcher()
		w.count(batch(controlplane.BindingKey("n", "a", "t", 1)))
		if _, err := w.Until(t.Context(), controlplane.Bindings, 2); err == nil || !strings.Contains(err.Error(), "1 of 2 bindings were put, and then nothing for 1m0s") {
			t.Errorf("got %v", err)
		}
		w.count(controlplane.Batch{Err: types.Errorf(types.Compacted, "gone")})
		if _, err := w.Until(t.Context(), controlplane.Bindings, 2); !types.Is(err, types.Compacted) {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(types.Errorf(types.Precondition, "over"))
		if _, err := newTestWatcher().Until(ctx, controlplane.Bindings, 2); !types.Is(err, types.Precondition) {
			t.Errorf("got %v", err)
		}
	})
}
