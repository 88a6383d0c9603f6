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

// patience is how long the end of a test waits for the audit.
const patience = 30 * time.Second

// Watch audits a store during a test: every violated guarantee at any revision until the end of the
// test fails it. Call it once the store exists and before anything runs on it: cleanups registered
// earlier may still change the store unseen.
func Watch(t testing.TB, store controlplane.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{reached: make(chan int64, 1)}
	go func() {
		defer close(w.reached)
		w.err = audit.Follow(ctx, store, zap.NewNop(), w.takeFindings)
	}()
	// No revision is missed from here on.
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

// takeFindings records findings and the newest revision.
func (w *watcher) takeFindings(revision int64, found []audit.Finding) error {
	w.found = append(w.found, found...)
	select {
	case <-w.reached:
	default:
	}
	w.reached <- revision
	return nil
}

// finish waits until everything so far is checked.
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

// mostReported bounds the findings that a failed test prints: one mistake makes many.
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
