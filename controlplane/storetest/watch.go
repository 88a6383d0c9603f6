package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

func watchTests() []conformance {
	return []conformance{
		{"every change from From on, past and future", func(f *fixture) {
			f.commit(f.put("before", "1"))
			r1 := f.commit(f.put("a", "1"))
			r2 := f.commit(f.put("a", "2"), f.put("b", "2"))
			w := f.watch(r1)
			expect(f, "past", w.describe(w.events()), fmt.Sprintf("%d: a=1", r1))
			expect(f, "past", w.describe(w.events()), fmt.Sprintf("%d: a=2 b=2", r2))
			r3 := f.commit(f.del("a"))
			expect(f, "future", w.describe(w.events()), fmt.Sprintf("%d: -a", r3))
		}},
		{"one batch a revision, in the order of operations", func(f *fixture) {
			r := f.commit(f.put("m", "1"))
			w := f.watch(r + 1)
			r = f.commit(f.put("z", "1"), f.del("m"), f.put("a", "1"))
			expect(f, "batch", w.describe(w.events()), fmt.Sprintf("%d: z=1 -m a=1", r))
		}},
		{"events have the key as it is then", func(f *fixture) {
			id := f.grant()
			r1 := f.commit(f.put("a", "1"))
			w := f.watch(r1)
			r2 := f.commit(controlplane.Op{Key: f.key("a"), Value: []byte("2"), Lease: id})
			r3 := f.commit(f.del("a"))
			expect(f, "create", w.events().Events, []controlplane.Event{
				{KV: controlplane.KV{Key: f.key("a"), Value: []byte("1"), CreateRevision: r1, ModRevision: r1}},
			})
			expect(f, "update", w.events().Events, []controlplane.Event{
				{KV: controlplane.KV{Key: f.key("a"), Value: []byte("2"), CreateRevision: r1, ModRevision: r2, Lease: id}},
			})
			expect(f, "delete", w.events().Events, []controlplane.Event{
				{KV: controlplane.KV{Key: f.key("a"), ModRevision: r3}, Delete: true},
			})
		}},
		{"only what is below the prefix", func(f *fixture) {
			r := f.commit(f.put("a/1", "1"), f.put("b/1", "1"), f.put("a", "1"))
			w := &watched{f: f}
			w.ch = f.Watch(f.ctx, controlplane.WatchOptions{Prefix: f.key("a/"), From: r})
			expect(f, "past", w.describe(w.events()), fmt.Sprintf("%d: a/1=1", r))
			f.commit(f.put("b/2", "1"))
			r = f.commit(f.put("b/2", "1"), f.put("a/2", "1"), f.put("b/3", "1"), f.put("a/1", "2"))
			expect(f, "future", w.describe(w.events()), fmt.Sprintf("%d: a/2=1 a/1=2", r))
		}},
		{"a future revision is waited for", func(f *fixture) {
			r := f.commit(f.put("a", "1"))
			w := f.watch(r + 3)
			f.commit(f.put("a", "2"))
			f.commit(f.put("a", "3"))
			r4 := f.commit(f.put("a", "4"))
			expect(f, "events", w.describe(w.events()), fmt.Sprintf("%d: a=4", r4))
		}},
		{"progress covers what was delivered and no more", testProgress},
		{"a watch of what comes next is told that the store is at rest", testRest},
		{"a receiver that is slow misses nothing", testSlow},
		{"writers that race are delivered in order, none missing", testRacingWriters},
		{"large values of one revision are one batch", testLargeBatch},
		{"it ends with its context, the channel closed", func(f *fixture) {
			w := f.watch(f.commit(f.put("a", "1")))
			w.events()
			w.cancel()
			for batch := range w.ch {
				if batch.Err != nil {
					f.Errorf("a watch that was cancelled has error %v", batch.Err)
				}
			}
		}},
		{"revision 0 is invalid", func(f *fixture) {
			w := f.watch(0)
			expectClass(f, "watch", w.next().Err, types.Invalid)
			if _, ok := <-w.ch; ok {
				f.Error("the channel is open after the error")
			}
		}},
	}
}

// testProgress makes changes outside the watch and waits until the watch reports their revision.
func testProgress(f *fixture) {
	r := f.commit(f.put("in/a", "1"))
	w := &watched{f: f}
	w.ch = f.Watch(f.ctx, controlplane.WatchOptions{Prefix: f.key("in/"), From: r})
	last := f.commit(f.put("out/a", "1"))
	seen, delivered := int64(0), false
	for seen < last {
		batch := w.next()
		if batch.Err != nil {
			f.Fatalf("watch: %v", batch.Err)
		}
		if batch.Revision < seen {
			f.Errorf("revision %d after %d", batch.Revision, seen)
		}
		delivered = delivered || len(batch.Events) > 0
		seen = batch.Revision
		if !delivered && seen >= r {
			f.Errorf("progress of %d before the event of %d", seen, r)
		}
	}
}

// testRest watches from the revision after the last, and writes nothing.
func testRest(f *fixture) {
	r := f.commit(f.put("a", "1"))
	w := f.watch(r + 1)
	if batch := w.next(); batch.Revision < r || batch.Err != nil || len(batch.Events) > 0 {
		f.Errorf("got %s, error %v, want progress of %d", w.describe(batch), batch.Err, r)
	}
	last := f.commit(f.put("a", "2"))
	expect(f, "next", w.describe(w.events()), fmt.Sprintf("%d: a=2", last))
}

func testSlow(f *fixture) {
	r := f.commit(f.put("a", "0"))
	w := f.watch(r + 1)
	const n = 2000
	for i := range n {
		f.commit(f.put("a", fmt.Sprint(i)))
	}
	for i := range n {
		if batch := w.events(); string(batch.Events[0].Value) != fmt.Sprint(i) {
			f.Fatalf("event %d is %s", i, w.describe(batch))
		}
	}
}

// testRacingWriters lets writers increment their own counters and a shared one, and follows the
// stream.
func testRacingWriters(f *fixture) {
	const writers, each = 4, 50
	w := f.watch(f.commit(f.put("begin", "")) + 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range writers {
		wg.Go(func() {
			for n := range each {
				f.increment(fmt.Sprint(i), fmt.Sprint(n))
			}
		})
	}
	var last, shared int64
	own := map[string]int{}
	for range writers * each {
		batch := w.events()
		if batch.Revision <= last || len(batch.Events) != 2 {
			f.Fatalf("after %d came %s", last, w.describe(batch))
		}
		last = batch.Revision
		if got := batch.Events[0].Value; string(got) != fmt.Sprint(shared) {
			f.Fatalf("shared counter is %s, want %d", got, shared)
		}
		shared = last
		name := batch.Events[1].Key
		if got := batch.Events[1].Value; string(got) != fmt.Sprint(own[name]) {
			f.Fatalf("%s is %s, want %d", name, got, own[name])
		}
		own[name]++
	}
}

// increment writes a key together with a shared one, whose value is its former revision, until no
// other writer interferes.
func (f *fixture) increment(name, value string) {
	revision := int64(0)
	for {
		result, err := f.Commit(f.ctx, controlplane.Txn{
			Compares: []controlplane.Compare{f.mod("shared", revision)},
			Ops:      []controlplane.Op{f.put("shared", fmt.Sprint(revision)), f.put(name, value)},
		})
		if err != nil {
			f.Errorf("commit: %v", err)
			return
		}
		if result.Committed {
			return
		}
		revision = result.Read[0].ModRevision
	}
}

// testLargeBatch fills a transaction so that etcd must send its events, with those of another one,
// in fragments.
func testLargeBatch(f *fixture) {
	const n = 20
	value := strings.Repeat("x", f.Limits().Bytes/(n+2))
	var ops []controlplane.Op
	for i := range n {
		ops = append(ops, f.put(fmt.Sprint(i), value))
	}
	r1 := f.commit(ops...)
	r2 := f.commit(ops...)
	w := f.watch(r1)
	for _, r := range []int64{r1, r2} {
		batch := w.events()
		expect(f, "revision", batch.Revision, r)
		expect(f, "events", len(batch.Events), n)
	}
}

func contextTests() []conformance {
	return []conformance{
		{"nothing is done when it is over already", func(f *fixture) {
			ctx, cancel := context.WithCancel(f.ctx)
			cancel()
			_, err := f.Commit(ctx, controlplane.Txn{Ops: []controlplane.Op{f.put("a", "1")}})
			expectClass(f, "commit", err, types.Unavailable)
			_, err = f.List(ctx, controlplane.ListOptions{Prefix: f.prefix})
			expectClass(f, "list", err, types.Unavailable)
			_, err = f.GrantLease(ctx, 1)
			expectClass(f, "grant", err, types.Unavailable)
			for batch := range f.Watch(ctx, controlplane.WatchOptions{Prefix: f.prefix, From: 1}) {
				f.Errorf("watch delivers %v", batch)
			}
			expect(f, "a", f.get("a"), nil)
		}},
	}
}
