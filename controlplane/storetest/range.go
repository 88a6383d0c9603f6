package storetest

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// rangeTests are about compares of all keys with a prefix.
func rangeTests() []conformance {
	return []conformance{
		{"an empty range holds, of any revision", func(f *fixture) {
			r := f.commit(f.put("a", "1"), f.put("c/1", "1"))
			for _, revision := range []int64{0, r - 1, r, r + 100} {
				expect(f, "committed", f.holds(f.newest("b/", revision)), true)
			}
		}},
		{"a range holds from its last change on", func(f *fixture) {
			r1 := f.commit(f.put("a/1", "1"), f.put("a/2", "1"))
			r2 := f.commit(f.put("a/2", "2"))
			f.commit(f.put("a", "1"), f.put("b/1", "1"))
			expect(f, "absent", f.holds(f.newest("a/", 0)), false)
			expect(f, "before", f.holds(f.newest("a/", r1)), false)
			expect(f, "then", f.holds(f.newest("a/", r2)), true)
			expect(f, "later", f.holds(f.newest("a/", r2+1)), true)
		}},
		{"a key that comes is noticed, one that goes is not", func(f *fixture) {
			r := f.commit(f.put("a/1", "1"), f.put("a/2", "1"))
			f.commit(f.del("a/1"))
			expect(f, "after a delete", f.holds(f.newest("a/", r)), true)
			f.commit(f.put("a/3", "1"))
			expect(f, "after a put", f.holds(f.newest("a/", r)), false)
			f.commit(f.del("a/3"))
			expect(f, "after both", f.holds(f.newest("a/", r)), true)
		}},
		{"a range that does not hold reads back a key that changed last", testRangeRead},
		{"what a transaction writes does not count against it", func(f *fixture) {
			result := f.try(controlplane.Txn{
				Compares: []controlplane.Compare{f.newest("a/", 0)},
				Ops:      []controlplane.Op{f.put("a/1", "1")},
			})
			expect(f, "first", result.Committed, true)
			again := f.try(controlplane.Txn{
				Compares: []controlplane.Compare{f.newest("a/", 0)},
				Ops:      []controlplane.Op{f.put("a/2", "1")},
			})
			expect(f, "second", again.Committed, false)
			expect(f, "a/2", f.get("a/2"), nil)
		}},
		{"an empty prefix is invalid", func(f *fixture) {
			_, err := f.Commit(f.ctx, controlplane.Txn{Compares: []controlplane.Compare{{Target: controlplane.Newest, Revision: 1}}})
			expectClass(f, "compare", err, types.Invalid)
		}},
	}
}

// holds reports whether a compare holds.
func (f *fixture) holds(c controlplane.Compare) bool {
	f.Helper()
	result := f.try(controlplane.Txn{Compares: []controlplane.Compare{c}})
	if !result.Committed && c.Target != controlplane.Value && c.Holds(result.Read[0]) {
		f.Errorf("%v does not hold, and holds for what was read, %v", c, result.Read[0])
	}
	return result.Committed
}

// testRangeRead compares ranges together with single keys, and one range at two revisions.
func testRangeRead(f *fixture) {
	r1 := f.commit(f.put("a/1", "1"), f.put("a/2", "1"), f.put("a/", "1"))
	r2 := f.commit(f.put("a/2", "2"))
	result := f.try(controlplane.Txn{Compares: []controlplane.Compare{
		f.newest("a/", r1), f.mod("a/", r1), f.newest("none/", 0), f.newest("a/", r2), f.newest("a/", 0), f.mod("a/2", r2),
	}})
	expect(f, "committed", result.Committed, false)
	two := controlplane.KV{Key: f.key("a/2"), CreateRevision: r1, ModRevision: r2}
	expect(f, "read", result.Read, []controlplane.KV{
		two, {Key: f.key("a/"), CreateRevision: r1, ModRevision: r1}, {Key: f.key("none/")}, {Key: f.key("a/")}, two, two,
	})
}
