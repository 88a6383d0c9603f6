package storetest

import (
	"fmt"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

func listTests() []conformance {
	return []conformance{
		{"empty", func(f *fixture) {
			page := f.list(controlplane.ListOptions{})
			expect(f, "keys", len(page.KVs), 0)
			expect(f, "more", page.More, false)
			if page.Revision < 1 {
				f.Errorf("revision %d of an empty listing, want that of the store", page.Revision)
			}
		}},
		{"prefix selects, in the order of keys", func(f *fixture) {
			f.commit(f.put("b/2", ""), f.put("a", ""), f.put("b/1", ""), f.put("b", ""), f.put("b/10", ""), f.put("c", ""))
			expect(f, "all", f.names(f.list(controlplane.ListOptions{})), []string{"a", "b", "b/1", "b/10", "b/2", "c"})
			expect(f, "b/", f.names(f.list(controlplane.ListOptions{Prefix: f.key("b/")})), []string{"b/1", "b/10", "b/2"})
			expect(f, "b", f.names(f.list(controlplane.ListOptions{Prefix: f.key("b")})), []string{"b", "b/1", "b/10", "b/2"})
		}},
		{"keys select what is there, in their order", testListKeys},
		{"empty prefix selects everything", func(f *fixture) {
			f.commit(f.put("a", "1"))
			page, err := f.List(f.ctx, controlplane.ListOptions{After: f.key(""), Limit: 1})
			if err != nil || len(page.KVs) != 1 || page.KVs[0].Key != f.key("a") {
				f.Errorf("got %v, %v", page, err)
			}
		}},
		{"key selects one", func(f *fixture) {
			r := f.commit(f.put("a", "1"), f.put("a/b", "2"))
			expect(f, "a", f.list(controlplane.ListOptions{Key: f.key("a")}).KVs, []controlplane.KV{
				{Key: f.key("a"), Value: []byte("1"), CreateRevision: r, ModRevision: r},
			})
			expect(f, "a after a", len(f.list(controlplane.ListOptions{Key: f.key("a"), After: f.key("a")}).KVs), 0)
			expect(f, "absent", len(f.list(controlplane.ListOptions{Key: f.key("b")}).KVs), 0)
		}},
		{"key has its revisions and lease", func(f *fixture) {
			id := f.grant()
			r1 := f.commit(f.put("a", "1"))
			r2 := f.commit(controlplane.Op{Key: f.key("a"), Value: []byte("2"), Lease: id})
			expect(f, "a", f.get("a"), &controlplane.KV{
				Key: f.key("a"), Value: []byte("2"), CreateRevision: r1, ModRevision: r2, Lease: id,
			})
			expect(f, "revision", f.list(controlplane.ListOptions{}).Revision >= r2, true)
		}},
		{"pages are cut by Limit and continued by After", testPages},
		{"pinned listing shows the past", testPinned},
		{"future revision is invalid", func(f *fixture) {
			r := f.commit(f.put("a", "1"))
			_, err := f.List(f.ctx, controlplane.ListOptions{Prefix: f.prefix, Revision: r + 1_000_000})
			expectClass(f, "list", err, types.Invalid)
		}},
		{"KeysOnly leaves the values and leases out", func(f *fixture) {
			r := f.commit(f.on(f.grant(), "a"))
			expect(f, "a", f.list(controlplane.ListOptions{KeysOnly: true}).KVs, []controlplane.KV{
				{Key: f.key("a"), CreateRevision: r, ModRevision: r},
			})
		}},
	}
}

func testPages(f *fixture) {
	var ops []controlplane.Op
	for i := range 10 {
		ops = append(ops, f.put(fmt.Sprintf("k%d", i), "x"))
	}
	r := f.commit(ops...)
	var names []string
	var sizes []int
	opts := controlplane.ListOptions{Prefix: f.prefix, Limit: 4}
	for {
		page := f.list(opts)
		names = append(names, f.names(page)...)
		sizes = append(sizes, len(page.KVs))
		if !page.More {
			break
		}
		if opts.Revision == 0 {
			// Changes between the pages do not show.
			f.commit(f.put("k3x", "x"), f.del("k5"), f.put("k9x", "x"), f.put("k8", "y"))
		}
		opts.Revision, opts.After = page.Revision, page.KVs[len(page.KVs)-1].Key
	}
	expect(f, "sizes", sizes, []int{4, 4, 2})
	expect(f, "names", names, []string{"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"})
	page := f.list(controlplane.ListOptions{Limit: 10, Revision: r})
	expect(f, "more, when Limit is the number of keys", page.More, false)
}

func testPinned(f *fixture) {
	r1 := f.commit(f.put("a", "1"), f.put("b", "1"))
	r2 := f.commit(f.put("a", "2"), f.del("b"), f.put("c", "1"))
	r3 := f.commit(f.put("b", "3"), f.del("c"))
	r4 := f.commit(f.del("a"))
	for _, want := range []struct {
		revision int64
		keys     []string
	}{
		{r1 - 1, nil},
		{r1, []string{fmt.Sprintf("a=1 %d %d", r1, r1), fmt.Sprintf("b=1 %d %d", r1, r1)}},
		{r2, []string{fmt.Sprintf("a=2 %d %d", r1, r2), fmt.Sprintf("c=1 %d %d", r2, r2)}},
		{r3, []string{fmt.Sprintf("a=2 %d %d", r1, r2), fmt.Sprintf("b=3 %d %d", r3, r3)}},
		{r4, []string{fmt.Sprintf("b=3 %d %d", r3, r3)}},
	} {
		page := f.list(controlplane.ListOptions{Revision: want.revision})
		var keys []string
		for _, kv := range page.KVs {
			keys = append(keys, fmt.Sprintf("%s=%s %d %d", kv.Key[len(f.prefix):], kv.Value, kv.CreateRevision, kv.ModRevision))
		}
		expect(f, fmt.Sprint("revision of the page at ", want.revision), page.Revision, want.revision)
		expect(f, fmt.Sprint("keys at ", want.revision), keys, want.keys)
	}
}

func testListKeys(f *fixture) {
	before := f.commit(f.put("a", "1"), f.put("b", "2"))
	now := f.commit(f.put("a", "3"), f.put("c", "4"), f.del("b"))
	keys := []string{f.key("c"), f.key("none"), f.key("b"), f.key("a")}
	page := f.list(controlplane.ListOptions{Keys: keys})
	expect(f, "keys", f.names(page), []string{"c", "a"})
	expect(f, "revision", page.Revision, now)
	kv := *f.get("a")
	expect(f, "key", page.KVs[1], kv)
	page = f.list(controlplane.ListOptions{Keys: keys, Revision: before})
	expect(f, "keys before", f.names(page), []string{"b", "a"})
	expect(f, "value before", string(page.KVs[1].Value), "1")
	expect(f, "revision before", page.Revision, before)
	_, err := f.List(f.ctx, controlplane.ListOptions{Keys: make([]string, f.Limits().Ops+1)})
	expectClass(f, "more keys than allowed", err, types.Invalid)
	_, err = f.List(f.ctx, controlplane.ListOptions{Keys: keys, Revision: now + 1000})
	expectClass(f, "a revision to come", err, types.Invalid)
}
