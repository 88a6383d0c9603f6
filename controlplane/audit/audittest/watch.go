package audittest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
)

// patience is how long the end of a test waits for the audit of what it did.
const patience = 30 * time.Second

// Watch attaches the audit to a store for the duration of a test: every guarantee
// that does not hold at some revision, of those there are until the end of the test,
// fails it. Call it once the store is there and before anything runs on it: what
// the test registered before with Cleanup may still change the store unseen.
func Watch(t testing.TB, store controlplane.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{reached: make(chan int64, 1)}
	go func() {
		defer close(w.reached)
		w.err = audit.Follow(ctx, store, zap.NewNop(), w.take)
	}()
	// From here on no revision is missed.
	started := w.await(0)
	t.Cleanup(func() {
		defer cancel()
		if err := w.finish(store); err != nil {
			t.Errorf("audit: %v", err)
		}
		cancel()
		for range w.reached {
			continue
		}
		report(t, w.found)
	})
	if started != nil {
		t.Fatalf("audit: %v", started)
	}
}

// watcher is one audit of a store. found is read once reached is closed.
type watcher struct {
	reached chan int64
	newest  int64
	found   []audit.Finding
	err     error
}

// take notes what is found, and how far the audit is: only the newest counts.
func (w *watcher) take(revision int64, found []audit.Finding) error {
	w.found = append(w.found, found...)
	select {
	case <-w.reached:
	default:
	}
	w.reached <- revision
	return nil
}

// finish waits until all that was done so far is checked.
func (w *watcher) finish(store controlplane.Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	page, err := store.List(ctx, controlplane.ListOptions{Prefix: controlplane.Root, Limit: 1, KeysOnly: true})
	if err != nil {
		return err
	}
	return w.await(page.Revision)
}

// await waits until a revision, or a later one, is checked.
func (w *watcher) await(revision int64) error {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case reached, ok := <-w.reached:
			if !ok {
				return w.err
			}
			w.newest = max(w.newest, reached)
		case <-timeout.C:
			return fmt.Errorf("revision %d was not reached within %v: the newest is %d", revision, patience, w.newest)
		}
		if w.newest >= revision {
			return nil
		}
	}
}

// mostReported is how many findings a failed test prints: one mistake makes many.
const mostReported = 20

func report(t testing.TB, found []audit.Finding) {
	t.Helper()
	for i, f := range found {
		if i == mostReported {
			t.Errorf("audit: and %d more", len(found)-i)
			return
		}
		t.Errorf("audit: %s", f)
	}
}
