package storetest

import (
	"fmt"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

func commitTests() []conformance {
	return []conformance{
		{"all operations bear one revision", func(f *fixture) {
			r := f.commit(f.put("a", "1"), f.put("b", "2"))
			expect(f, "a", f.get("a").ModRevision, r)
			expect(f, "b", f.get("b").ModRevision, r)
			if next := f.commit(f.put("a", "2")); next <= r {
				f.Errorf("next revision is %d, want more than %d", next, r)
			}
		}},
		{"compares that hold commit", testHold},
		{"compares that do not hold are an answer", testConflict},
		{"one failed compare fails all", func(f *fixture) {
			r := f.commit(f.put("a", "1"))
			result := f.try(controlplane.Txn{
				Compares: []controlplane.Compare{f.mod("a", r), f.mod("b", r)},
				Ops:      []controlplane.Op{f.put("a", "2"), f.put("b", "2"), f.del("c")},
			})
			expect(f, "committed", result.Committed, false)
			expect(f, "a", string(f.get("a").Value), "1")
			expect(f, "b", f.get("b"), nil)
		}},
		{"a value is that of a key that is there, to the byte", testValue},
		{"Sent is called when it is on its way", testSent},
		{"Read is in the order of Compares, a key as often as compared", testReadOrder},
		{"create again has a new CreateRevision", func(f *fixture) {
			f.commit(f.put("a", "1"))
			f.commit(f.del("a"))
			r := f.commit(f.put("a", "2"))
			expect(f, "CreateRevision", f.get("a").CreateRevision, r)
		}},
		{"delete of an absent key is no change", func(f *fixture) {
			r := f.commit(f.put("a", "1"))
			w := f.watch(r + 1)
			result := f.try(controlplane.Txn{Ops: []controlplane.Op{f.del("x"), f.del("y")}})
			expect(f, "committed", result.Committed, true)
			r2 := f.commit(f.del("x"), f.put("b", "1"))
			expect(f, "events", w.describe(w.events()), fmt.Sprintf("%d: b=1", r2))
		}},
		{"without operations it only compares", func(f *fixture) {
			r := f.commit(f.put("a", "1"))
			expect(f, "hold", f.try(controlplane.Txn{Compares: []controlplane.Compare{f.mod("a", r)}}).Committed, true)
			expect(f, "do not hold", f.try(controlplane.Txn{Compares: []controlplane.Compare{f.mod("a", 0)}}).Committed, false)
		}},
		{"a key written twice is invalid", func(f *fixture) {
			f.commit(f.put("old", "1"))
			for _, ops := range [][]controlplane.Op{
				{f.put("a", "1"), f.put("a", "2")},
				{f.put("a", "1"), f.del("a")},
				{f.del("a"), f.del("a")},
				{f.put("old", "2"), f.del("old")},
			} {
				// The compares do not matter.
				for _, compares := range [][]controlplane.Compare{nil, {f.mod("none", 7)}} {
					_, err := f.Commit(f.ctx, controlplane.Txn{Compares: compares, Ops: ops})
					expectClass(f, "commit", err, types.Invalid)
				}
			}
			expect(f, "old", string(f.get("old").Value), "1")
		}},
		{"an empty key is invalid", func(f *fixture) {
			_, err := f.Commit(f.ctx, controlplane.Txn{Ops: []controlplane.Op{{Value: []byte("x")}}})
			expectClass(f, "put", err, types.Invalid)
			_, err = f.Commit(f.ctx, controlplane.Txn{Compares: []controlplane.Compare{{}}})
			expectClass(f, "compare", err, types.Invalid)
		}},
	}
}

func testHold(f *fixture) {
	create := f.try(controlplane.Txn{
		Compares: []controlplane.Compare{f.mod("a", 0), f.created("a", 0)},
		Ops:      []controlplane.Op{f.put("a", "1")},
	})
	expect(f, "create", create.Committed, true)
	expect(f, "nothing read", len(create.Read), 0)
	update := f.try(controlplane.Txn{
		Compares: []controlplane.Compare{f.mod("a", create.Revision)},
		Ops:      []controlplane.Op{f.put("a", "2")},
	})
	expect(f, "update", update.Committed, true)
	session := f.try(controlplane.Txn{
		Compares: []controlplane.Compare{f.created("a", create.Revision), f.mod("a", update.Revision)},
		Ops:      []controlplane.Op{f.del("a")},
	})
	expect(f, "delete", session.Committed, true)
	expect(f, "a", f.get("a"), nil)
	again := f.try(controlplane.Txn{
		Compares: []controlplane.Compare{f.mod("a", 0), f.created("a", 0)},
		Ops:      []controlplane.Op{f.put("a", "3")},
	})
	expect(f, "a deleted key is absent", again.Committed, true)
}

func testConflict(f *fixture) {
	r1 := f.commit(f.put("a", "1"))
	r2 := f.commit(f.put("a", "2"))
	for _, c := range []controlplane.Compare{
		f.mod("a", r1), f.mod("a", 0), f.created("a", r2), f.created("a", 0),
	} {
		result := f.try(controlplane.Txn{Compares: []controlplane.Compare{c}, Ops: []controlplane.Op{f.put("a", "3")}})
		expect(f, "committed", result.Committed, false)
		expect(f, "read", result.Read, []controlplane.KV{{Key: f.key("a"), CreateRevision: r1, ModRevision: r2}})
		if result.Revision < r2 {
			f.Errorf("revision %d, want that of the store, at least %d", result.Revision, r2)
		}
	}
	result := f.try(controlplane.Txn{Compares: []controlplane.Compare{f.mod("b", r1)}, Ops: []controlplane.Op{f.put("b", "1")}})
	expect(f, "absent key", result.Read, []controlplane.KV{{Key: f.key("b")}})
}

func testValue(f *fixture) {
	id := f.grant()
	r := f.commit(controlplane.Op{Key: f.key("a"), Value: []byte("1\xff\x00"), Lease: id}, controlplane.Op{Key: f.key("empty")})
	for _, c := range []controlplane.Compare{f.value("a", "1\xff\x00"), f.value("empty", "")} {
		expect(f, c.Key, f.holds(c), true)
	}
	for _, c := range []controlplane.Compare{f.value("a", "1\xff"), f.value("a", "1\xff\x00\x00"), f.value("a", ""), f.value("none", ""), f.value("empty", "1")} {
		expect(f, c.Key+" "+c.Content, f.holds(c), false)
	}
	// A Value compare that holds is read back with its value; if one fails, nothing is.
	a := controlplane.KV{Key: f.key("a"), CreateRevision: r, ModRevision: r}
	whole := a
	whole.Value = []byte("1\xff\x00")
	compares := []controlplane.Compare{f.mod("a", r), f.value("a", "1\xff\x00"), f.mod("a", 0), f.value("a", "1\xff\x00")}
	read := []controlplane.KV{a, whole, a, whole}
	for range 2 {
		result := f.try(controlplane.Txn{Compares: compares})
		expect(f, "revision", result.Revision, r)
		expect(f, "read", result.Read, read)
		result = f.try(controlplane.Txn{Compares: append(compares, f.value("a", "2"))})
		expect(f, "committed", result.Committed, false)
		expect(f, "revision", result.Revision, r)
		expect(f, "read", len(result.Read), 0)
		for range 40 { // with this many, a request of its own reads them back
			compares, read = append(compares, f.mod("a", r)), append(read, a)
		}
	}
	// A repeated put of the same value satisfies the compare.
	f.commit(f.put("a", "2"))
	f.commit(f.put("a", "1\xff\x00"))
	expect(f, "put again", f.holds(f.value("a", "1\xff\x00")), true)
}

func testSent(f *fixture) {
	sent := 0
	note := func() { sent++ }
	r := f.commit(f.put("a", "1"))
	for i, c := range []controlplane.Compare{f.mod("a", r), f.mod("a", 0)} {
		f.try(controlplane.Txn{Compares: []controlplane.Compare{c}, Sent: note})
		expect(f, "sent", sent, i+1)
	}
	_, err := f.Commit(f.ctx, controlplane.Txn{Ops: []controlplane.Op{f.put("a", "1"), f.del("a")}, Sent: note})
	expectClass(f, "commit", err, types.Invalid)
	expect(f, "sent of what is invalid", sent, 2)
}

func testReadOrder(f *fixture) {
	id := f.grant()
	r1 := f.commit(f.put("z", "1"))
	r2 := f.commit(controlplane.Op{Key: f.key("a"), Value: []byte("1"), Lease: id})
	result := f.try(controlplane.Txn{Compares: []controlplane.Compare{
		f.mod("z", r1), f.created("a", r2), f.mod("none", 0), f.created("z", r1), f.mod("a", r1), f.mod("z", r1),
	}})
	z := controlplane.KV{Key: f.key("z"), CreateRevision: r1, ModRevision: r1}
	a := controlplane.KV{Key: f.key("a"), CreateRevision: r2, ModRevision: r2}
	expect(f, "read", result.Read, []controlplane.KV{z, a, {Key: f.key("none")}, z, a, z})
}

func limitTests() []conformance {
	return []conformance{
		{"as many compares and operations as allowed", func(f *fixture) {
			var txn controlplane.Txn
			for i := range f.Limits().Ops {
				name := fmt.Sprint(i)
				txn.Compares = append(txn.Compares, f.mod(name, 0))
				txn.Ops = append(txn.Ops, f.put(name, "x"))
			}
			// etcd on a busy machine takes longer for it than its clients wait: then it may be applied.
			if first, err := f.Commit(f.ctx, txn); !types.Is(err, types.Unknown) {
				expect(f, "first", first.Committed && err == nil, true)
			}
			second := f.try(txn)
			expect(f, "second", second.Committed, false)
			expect(f, "read", len(second.Read), f.Limits().Ops)
		}},
		{"one operation more is invalid", func(f *fixture) {
			var txn controlplane.Txn
			for i := range f.Limits().Ops + 1 {
				txn.Ops = append(txn.Ops, f.put(fmt.Sprint(i), "x"))
			}
			_, err := f.Commit(f.ctx, txn)
			expectClass(f, "commit", err, types.Invalid)
			expect(f, "keys", len(f.list(controlplane.ListOptions{}).KVs), 0)
		}},
		{"one compare more is invalid", func(f *fixture) {
			var txn controlplane.Txn
			for i := range f.Limits().Ops + 1 {
				txn.Compares = append(txn.Compares, f.mod(fmt.Sprint(i), 0))
			}
			_, err := f.Commit(f.ctx, txn)
			expectClass(f, "commit", err, types.Invalid)
		}},
		{"too many bytes are invalid", func(f *fixture) {
			_, err := f.Commit(f.ctx, controlplane.Txn{Ops: []controlplane.Op{f.put("a", strings.Repeat("x", f.Limits().Bytes))}})
			expectClass(f, "commit", err, types.Invalid)
			expect(f, "a", f.get("a"), nil)
		}},
		{"what its maker calls invalid is", func(f *fixture) {
			c := controlplane.NewChange(1)
			c.Put(f.key("a"), &types.Namespace{})
			c.Put(f.key("b"), &types.Leader{Holder: strings.Repeat("x", types.MaxMessageBytes)})
			_, err := f.Commit(f.ctx, c.Txn())
			expectClass(f, "commit", err, types.Invalid)
			expect(f, "a", f.get("a"), nil)
		}},
		{"nearly as many bytes as allowed", func(f *fixture) {
			value := strings.Repeat("x", f.Limits().Bytes-2048)
			f.commit(f.put("a", value))
			expect(f, "length", len(f.get("a").Value), len(value))
		}},
	}
}
