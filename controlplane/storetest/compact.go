package storetest

import (
	"fmt"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// compact drops the history before a revision.
func (f *fixture) compact(revision int64) {
	f.Helper()
	if err := f.Store.(compacter).Compact(f.ctx, revision); err != nil {
		f.Fatalf("compact: %v", err)
	}
}

func compactTests() []conformance {
	return []conformance{
		{"list before it is compacted, from it on is not", func(f *fixture) {
			r1 := f.commit(f.put("a", "1"), f.put("b", "1"), f.put("c", "1"))
			r2 := f.commit(f.put("a", "2"), f.del("c"))
			r3 := f.commit(f.put("a", "3"), f.del("b"))
			f.compact(r2)
			_, err := f.List(f.ctx, controlplane.ListOptions{Prefix: f.prefix, Revision: r1})
			expectClass(f, "list", err, types.Compacted)
			expect(f, "at it", f.names(f.list(controlplane.ListOptions{Revision: r2})), []string{"a", "b"})
			expect(f, "after it", f.names(f.list(controlplane.ListOptions{Revision: r3})), []string{"a"})
			expect(f, "a", string(f.list(controlplane.ListOptions{Revision: r2, Key: f.key("a")}).KVs[0].Value), "2")
		}},
		{"watch before it is compacted, from it on is not", func(f *fixture) {
			r1 := f.commit(f.put("a", "1"), f.put("b", "1"))
			r2 := f.commit(f.put("a", "2"), f.del("b"))
			r3 := f.commit(f.put("a", "3"))
			f.compact(r2)
			early := f.watch(r1)
			expectClass(f, "watch", early.next().Err, types.Compacted)
			if _, ok := <-early.ch; ok {
				f.Error("the channel is open after the error")
			}
			w := f.watch(r2)
			expect(f, "at it", w.describe(w.events()), fmt.Sprintf("%d: a=2 -b", r2))
			expect(f, "after it", w.describe(w.events()), fmt.Sprintf("%d: a=3", r3))
		}},
		{"a watch that is up to date goes on", func(f *fixture) {
			w := f.watch(f.commit(f.put("a", "1")))
			w.events()
			r := f.commit(f.put("a", "2"))
			w.events()
			f.compact(r)
			r = f.commit(f.put("a", "3"))
			expect(f, "event", w.describe(w.events()), fmt.Sprintf("%d: a=3", r))
		}},
		{"the newest state survives", func(f *fixture) {
			r1 := f.commit(f.put("a", "1"), f.put("b", "1"))
			r2 := f.commit(f.del("b"))
			f.compact(r2)
			expect(f, "a", f.get("a").CreateRevision, r1)
			expect(f, "b", f.get("b"), nil)
			result := f.try(controlplane.Txn{
				Compares: []controlplane.Compare{f.mod("a", r1), f.created("a", r1), f.mod("b", 0)},
				Ops:      []controlplane.Op{f.put("b", "2")},
			})
			expect(f, "compares", result.Committed, true)
		}},
		{"it goes on when the database is full", func(f *fixture) {
			r := f.commit(f.put("a", "1"))
			f.commit(f.put("a", "2"))
			f.fill()
			f.compact(r + 1)
			_, err := f.List(f.ctx, controlplane.ListOptions{Prefix: f.prefix, Revision: r})
			expectClass(f, "list", err, types.Compacted)
		}},
		{"once is enough, and not in the future", func(f *fixture) {
			r := f.commit(f.put("a", "1"))
			f.compact(r)
			store := f.Store.(compacter)
			expectClass(f, "again", store.Compact(f.ctx, r), types.Compacted)
			expectClass(f, "future", store.Compact(f.ctx, r+1_000_000), types.Invalid)
		}},
	}
}
