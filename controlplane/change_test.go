package controlplane_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

func TestChangeBuildsATransaction(t *testing.T) {
	c := controlplane.NewChange(77)
	c.IfUnchanged("/a", 5)
	c.IfUnchanged("/a", 5) // the same compare once
	c.IfCreated("/a", 4)
	c.IfUnchanged("/b", 0)
	if n := c.Put("/a", &types.Leader{Holder: "me"}); n != len(types.Encode(77, &types.Leader{Holder: "me"})) {
		t.Errorf("the size is %d", n)
	}
	c.PutOn("/c", &types.Leader{}, 9)
	c.Delete("/d")
	if compares, ops := c.Size(); compares != 3 || ops != 3 {
		t.Errorf("it has %d compares and %d operations", compares, ops)
	}
	txn := c.Txn()
	if types.Batch(txn.Ops[0].Value) != 77 || txn.Ops[1].Lease != 9 || !txn.Ops[2].Delete {
		t.Errorf("%+v", txn.Ops)
	}
	if controlplane.NewBatch() == 0 {
		t.Error("a batch id is 0")
	}
}

// Two different compares of one key both count, and each once.
func TestChangeComparesEachOnce(t *testing.T) {
	c := controlplane.NewChange(77)
	c.Grow(10)
	for range 2 {
		c.IfUnchanged("/a", 5)
		c.IfUnchanged("/b", 0)
	}
	c.IfUnchanged("/b", 7)
	c.IfNoneSince("/a", 5)
	want := []controlplane.Compare{
		{Key: "/a", Revision: 5}, {Key: "/b"}, {Key: "/b", Revision: 7}, {Key: "/a", Target: controlplane.Newest, Revision: 5},
	}
	if got := c.Txn().Compares; !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Later large values leave earlier values unchanged.
func TestChangeOfLargeValues(t *testing.T) {
	c := controlplane.NewChange(77)
	var want []*types.Leader
	for _, size := range []int{1, 100, 5000, 10, 5000, 70_000, 1, 70_000, 300, 20} {
		m := &types.Leader{Holder: strings.Repeat(string(rune('a'+len(want))), size)}
		want = append(want, m)
		c.Put(m.Holder[:1], m)
	}
	for i, op := range c.Txn().Ops {
		if !slices.Equal(op.Value, types.Encode(77, want[i])) {
			t.Errorf("value %d of %d bytes is another one", i, len(op.Value))
		}
	}
}

// TestCommit sends a change with every fate, with and without another writer that changes the same
// key first.
func TestCommit(t *testing.T) {
	for _, c := range []struct {
		fates     []fate
		contender int // the commit before which another writer puts the key
		committed bool
	}{
		{nil, 0, true},
		{[]fate{lost}, 0, true},
		{[]fate{lost, lost, lost}, 0, true},
		{[]fate{forgotten, forgotten}, 0, true},
		{[]fate{late}, 0, true},
		{[]fate{unavailable, unavailable}, 0, true},
		{nil, 1, false},
		{[]fate{forgotten}, 2, false},
		{[]fate{late}, 2, false},
		// It was committed, and overwritten before the check.
		{[]fate{lost}, 2, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &lossy{Store: memstore.New()}
			s.next(c.fates...)
			s.before = func(n int) {
				if n == c.contender {
					put(t, s.Store, "/a", "other")
				}
			}
			change := controlplane.NewChange(controlplane.NewBatch())
			change.IfUnchanged("/a", 0)
			change.Put("/a", &types.Leader{Holder: "me"})
			res, err := controlplane.Commit(t.Context(), s, change.Txn())
			if err != nil || res.Committed != c.committed {
				t.Errorf("%v, contender %d: %+v, %v", c.fates, c.contender, res, err)
			}
			if !res.Committed && len(res.Read) != 1 {
				t.Errorf("%v, contender %d: what was found is missing: %+v", c.fates, c.contender, res)
			}
			want := "me"
			if c.contender > 0 {
				want = "other"
			}
			if got := holder(t, s.Store, "/a"); got != want {
				t.Errorf("%v, contender %d: the key is %s's, want %s's", c.fates, c.contender, got, want)
			}
		})
	}
}

// TestCommitOfDeletions sends a change that only deletes, with every fate, and with a contender
// that changes a compared key.
func TestCommitOfDeletions(t *testing.T) {
	for _, c := range []struct {
		fates     []fate
		contender string // the key that another writer changes before the second commit
		committed bool
	}{
		{nil, "", true},
		{[]fate{lost}, "", true},
		{[]fate{lost, lost}, "", true},
		{[]fate{forgotten}, "", true},
		{[]fate{forgotten}, "/a", false},
		{[]fate{forgotten}, "/other", false},
		// It was committed, and a key was created again before the check.
		{[]fate{lost}, "/a", false},
		{[]fate{lost}, "/other", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &lossy{Store: memstore.New()}
			put(t, s.Store, "/a", "me")
			put(t, s.Store, "/b", "me")
			s.next(c.fates...)
			s.before = func(n int) {
				if n == 2 && c.contender != "" {
					put(t, s.Store, c.contender, "other")
				}
			}
			change := controlplane.NewChange(controlplane.NewBatch())
			change.IfUnchanged("/a", 2)
			change.IfUnchanged("/b", 3)
			change.IfUnchanged("/other", 0)
			change.Delete("/a")
			change.Delete("/b")
			res, err := controlplane.Commit(t.Context(), s, change.Txn())
			if err != nil || res.Committed != c.committed {
				t.Errorf("%v, contender at %q: %+v, %v", c.fates, c.contender, res, err)
			}
		})
	}
}

func put(t *testing.T, s controlplane.Store, key, holder string) {
	t.Helper()
	value := types.Encode(controlplane.NewBatch(), &types.Leader{Holder: holder})
	if _, err := s.Commit(context.Background(), controlplane.Txn{Ops: []controlplane.Op{{Key: key, Value: value}}}); err != nil {
		t.Fatal(err)
	}
}

func holder(t *testing.T, s controlplane.Store, key string) string {
	t.Helper()
	page, err := s.List(context.Background(), controlplane.ListOptions{Key: key})
	if err != nil || len(page.KVs) != 1 {
		t.Fatal(page, err)
	}
	var l types.Leader
	if err := types.Decode(page.KVs[0].Value, &l); err != nil {
		t.Fatal(err)
	}
	return l.Holder
}

// When ctx is done, the class of the error says whether a copy may have been committed.
func TestCommitUntilCancelled(t *testing.T) {
	for f, class := range map[fate]types.Class{forgotten: types.Unknown, lost: types.Unknown, unavailable: types.Unavailable} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			s := &lossy{Store: memstore.New()}
			s.next(f)
			s.before = func(n int) {
				s.next(f)
				if n == 5 {
					cancel()
				}
			}
			change := controlplane.NewChange(controlplane.NewBatch())
			change.Put("/a", &types.Leader{})
			_, err := controlplane.Commit(ctx, s, change.Txn())
			if !types.Is(err, class) || !strings.Contains(err.Error(), "cancel") {
				t.Errorf("fate %d: got %v of class %s, want %s", f, err, types.ClassOf(err), class)
			}
		})
	}
}

func TestCommitReturnsOtherErrorsAtOnce(t *testing.T) {
	s := &lossy{Store: memstore.New(memstore.WithLimits(controlplane.Limits{Ops: 1, Bytes: 1 << 20}))}
	change := controlplane.NewChange(1)
	change.Delete("/a")
	change.Delete("/b")
	if _, err := controlplane.Commit(t.Context(), s, change.Txn()); !types.Is(err, types.Invalid) || s.commits() != 1 {
		t.Errorf("got %v", err)
	}
}
