package storetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// scan reads a range and returns all of it.
func (f *fixture) scan(opts controlplane.ListOptions) (kvs []controlplane.KV, revision int64) {
	f.Helper()
	if opts.Prefix == "" && opts.Key == "" {
		opts.Prefix = f.prefix
	}
	var parts [][]controlplane.KV
	revision, err := controlplane.Scan(f.ctx, f.Store, opts, func(part []controlplane.KV) error {
		parts = append(parts, part)
		return nil
	})
	if err != nil {
		f.Fatalf("scan: %v", err)
	}
	return append([]controlplane.KV{}, slices.Concat(parts...)...), revision
}

// many puts n keys.
func (f *fixture) many(n int) (revision int64) {
	f.Helper()
	const each = 100
	for i := 0; i < n; i += each {
		var ops []controlplane.Op
		for k := i; k < min(i+each, n); k++ {
			ops = append(ops, f.put(fmt.Sprintf("%06d", k), fmt.Sprint("value ", k)))
		}
		revision = f.commit(ops...)
	}
	return revision
}

func scanTests() []conformance {
	return []conformance{
		{"of nothing", func(f *fixture) {
			r := f.commit(f.put("a", ""))
			kvs, revision := f.scan(controlplane.ListOptions{Prefix: f.key("b")})
			expect(f, "keys", len(kvs), 0)
			expect(f, "revision", revision >= r, true)
		}},
		{"reads what a listing reads", testScanEqualsList},
		{"is of one revision, whatever is changed meanwhile", testScanIsPinned},
		{"is pinned to the revision asked for", func(f *fixture) {
			r1 := f.commit(f.put("a", "1"), f.put("b", "1"))
			f.commit(f.put("a", "2"), f.del("b"), f.put("c", "2"))
			kvs, revision := f.scan(controlplane.ListOptions{Revision: r1})
			expect(f, "revision", revision, r1)
			expect(f, "keys", kvs, []controlplane.KV{
				{Key: f.key("a"), Value: []byte("1"), CreateRevision: r1, ModRevision: r1},
				{Key: f.key("b"), Value: []byte("1"), CreateRevision: r1, ModRevision: r1},
			})
		}},
		{"ends with the error of take", func(f *fixture) {
			f.many(300)
			broken, parts := errors.New("broken"), 0
			_, err := controlplane.Scan(f.ctx, f.Store, controlplane.ListOptions{Prefix: f.prefix, Limit: 10}, func([]controlplane.KV) error {
				parts++
				return broken
			})
			expect(f, "parts", parts, 1)
			expect(f, "error", errors.Is(err, broken), true)
		}},
		{"before the compaction is compacted", func(f *fixture) {
			r1 := f.commit(f.put("a", "1"))
			f.compact(f.commit(f.put("a", "2")))
			_, err := controlplane.Scan(f.ctx, f.Store, controlplane.ListOptions{Prefix: f.prefix, Revision: r1}, func([]controlplane.KV) error { return nil })
			expectClass(f, "scan", err, types.Compacted)
		}},
		{"is whole, or compacted, when it is compacted meanwhile", testScanCompacted},
	}
}

func testScanEqualsList(f *fixture) {
	f.many(1234)
	f.commit(f.put("000007", "changed"), f.del("000008"), f.on(f.grant(), "lent"), f.put("empty", ""))
	for _, opts := range []controlplane.ListOptions{
		{}, {Limit: 100}, {KeysOnly: true}, {After: f.key("000500")}, {Prefix: f.key("0011")}, {Key: f.key("000007")}, {Key: f.key("absent")},
	} {
		kvs, _ := f.scan(opts)
		opts.Limit = 0
		expect(f, fmt.Sprintf("%+v", opts), kvs, append([]controlplane.KV{}, f.list(opts).KVs...))
	}
}

func testScanIsPinned(f *fixture) {
	r := f.many(1000)
	want := f.list(controlplane.ListOptions{}).KVs
	var got []controlplane.KV
	revision, err := controlplane.Scan(f.ctx, f.Store, controlplane.ListOptions{Prefix: f.prefix, Limit: 100}, func(part []controlplane.KV) error {
		got = append(got, part...)
		f.commit(f.put("000999", "later"), f.put("000999x", "later"))
		return nil
	})
	if err != nil {
		f.Fatalf("scan: %v", err)
	}
	expect(f, "revision", revision, r)
	expect(f, "keys", got, want)
}

func testScanCompacted(f *fixture) {
	f.many(1000)
	keys := 0
	_, err := controlplane.Scan(f.ctx, f.Store, controlplane.ListOptions{Prefix: f.prefix, Limit: 100}, func(part []controlplane.KV) error {
		if keys == 0 {
			f.compact(f.commit(f.put("000999", "later")))
		}
		keys += len(part)
		return nil
	})
	if err == nil {
		expect(f, "keys", keys, 1000)
		return
	}
	expectClass(f, "scan", err, types.Compacted)
}
