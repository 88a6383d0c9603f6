// Package storetest is the conformance suite of controlplane.Store. Callers may not rely on
// anything that it does not check.
package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// compacter is a store that can drop the history before a revision. Compacted: it is already gone.
// Invalid: the revision does not exist yet.
type compacter interface {
	Compact(ctx context.Context, revision int64) error
}

// filler is a store that a test can fill: SetFull raises or clears the alarm of a full database.
type filler interface {
	SetFull(ctx context.Context, full bool) error
}

// Run checks a store, by the named groups of tests, or by all. It calls factory once for each test;
// the factory may return the same store each time, with any content, because each test has its own
// keys. The store must have the methods
// of compacter and filler, report the progress of a quiet watch within seconds, and keep no lease
// longer than 3 s after its end.
func Run(t *testing.T, factory func(t *testing.T) controlplane.Store, only ...string) {
	groups := []struct {
		name  string
		tests []conformance
	}{
		{"List", listTests()},
		{"Scan", scanTests()},
		{"Commit", commitTests()},
		{"Range", rangeTests()},
		{"Limits", limitTests()},
		{"Watch", watchTests()},
		{"Lease", leaseTests()},
		{"Compact", compactTests()},
		{"Full", fullTests()},
		{"Context", contextTests()},
	}
	ran := 0
	for _, group := range groups {
		if len(only) > 0 && !slices.Contains(only, group.name) {
			continue
		}
		ran++
		for _, test := range group.tests {
			t.Run(group.name+"/"+test.name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				test.run(&fixture{T: t, Store: factory(t), ctx: ctx, prefix: "/" + t.Name() + "/"})
			})
		}
	}
	if len(only) > 0 && ran != len(only) {
		t.Errorf("%d groups of %q ran", ran, only)
	}
}

// conformance is one sentence of the contract.
type conformance struct {
	name string
	run  func(f *fixture)
}

// fixture is a store under test, with shorthands. Their keys are relative to the test's own prefix.
type fixture struct {
	*testing.T
	controlplane.Store
	ctx    context.Context
	prefix string
}

func (f *fixture) key(name string) string { return f.prefix + name }

func (f *fixture) put(name, value string) controlplane.Op {
	return controlplane.Op{Key: f.key(name), Value: []byte(value)}
}

func (f *fixture) del(name string) controlplane.Op {
	return controlplane.Op{Key: f.key(name), Delete: true}
}

func (f *fixture) mod(name string, revision int64) controlplane.Compare {
	return controlplane.Compare{Key: f.key(name), Target: controlplane.ModRevision, Revision: revision}
}

func (f *fixture) created(name string, revision int64) controlplane.Compare {
	return controlplane.Compare{Key: f.key(name), Target: controlplane.CreateRevision, Revision: revision}
}

func (f *fixture) newest(prefix string, revision int64) controlplane.Compare {
	return controlplane.Compare{Key: f.key(prefix), Target: controlplane.Newest, Revision: revision}
}

func (f *fixture) value(name, content string) controlplane.Compare {
	return controlplane.Compare{Key: f.key(name), Target: controlplane.Value, Content: content}
}

// commit applies operations unconditionally and returns their revision.
func (f *fixture) commit(ops ...controlplane.Op) int64 {
	f.Helper()
	result := f.try(controlplane.Txn{Ops: ops})
	if !result.Committed {
		f.Fatalf("commit without compares: not committed")
	}
	return result.Revision
}

// try commits a transaction.
func (f *fixture) try(txn controlplane.Txn) controlplane.Result {
	f.Helper()
	result, err := f.Commit(f.ctx, txn)
	if err != nil {
		f.Fatalf("commit: %v", err)
	}
	return result
}

// list lists the test's keys.
func (f *fixture) list(opts controlplane.ListOptions) controlplane.Page {
	f.Helper()
	if opts.Prefix == "" && opts.Key == "" && len(opts.Keys) == 0 {
		opts.Prefix = f.prefix
	}
	page, err := f.List(f.ctx, opts)
	if err != nil {
		f.Fatalf("list: %v", err)
	}
	return page
}

// get reads a key; nil means that it is absent.
func (f *fixture) get(name string) *controlplane.KV {
	f.Helper()
	page := f.list(controlplane.ListOptions{Key: f.key(name)})
	if len(page.KVs) == 0 {
		return nil
	}
	return &page.KVs[0]
}

// names returns the keys of a page, relative to the prefix.
func (f *fixture) names(page controlplane.Page) []string {
	var names []string
	for _, kv := range page.KVs {
		names = append(names, kv.Key[len(f.prefix):])
	}
	return names
}

// watch watches the test's keys until its end.
func (f *fixture) watch(from int64) *watched {
	ctx, cancel := context.WithCancel(f.ctx)
	ch := f.Watch(ctx, controlplane.WatchOptions{Prefix: f.prefix, From: from})
	f.Cleanup(func() {
		cancel()
		for range ch {
			continue
		}
	})
	return &watched{f: f, ch: ch, cancel: cancel}
}

// watched is a watch with shorthands.
type watched struct {
	f      *fixture
	ch     <-chan controlplane.Batch
	cancel context.CancelFunc
}

// next returns the next batch, progress included.
func (w *watched) next() controlplane.Batch {
	w.f.Helper()
	select {
	case batch, ok := <-w.ch:
		if !ok {
			w.f.Fatal("watch: closed")
		}
		return batch
	case <-w.f.ctx.Done():
		w.f.Fatalf("watch: nothing came: %v", w.f.ctx.Err())
	}
	panic("not reached")
}

// events returns the next batch with events.
func (w *watched) events() controlplane.Batch {
	w.f.Helper()
	for {
		switch batch := w.next(); {
		case batch.Err != nil:
			w.f.Fatalf("watch: %v", batch.Err)
		case len(batch.Events) > 0:
			return batch
		}
	}
}

// describe writes a batch as text: revision and changes.
func (w *watched) describe(batch controlplane.Batch) string {
	s := fmt.Sprintf("%d:", batch.Revision)
	for _, e := range batch.Events {
		name := e.Key[len(w.f.prefix):]
		if e.Delete {
			s += " -" + name
			continue
		}
		s += fmt.Sprintf(" %s=%s", name, e.Value)
	}
	return s
}

// expect fails the test unless got equals want.
func expect[T any](f *fixture, what string, got, want T) {
	f.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		f.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// expectClass fails the test unless err has one of the classes.
func expectClass(f *fixture, what string, err error, classes ...types.Class) {
	f.Helper()
	if err == nil || !slices.Contains(classes, types.ClassOf(err)) {
		f.Errorf("%s: error %v, want one of class %v", what, err, classes)
	}
}
