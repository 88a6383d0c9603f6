package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
)

// describePart writes an update of a list-watch in parts as text, with those of the given keys that
// are missing in the store.
func describePart(u controlplane.Update, keys ...string) string {
	s := describe(u)
	if u.More {
		s += " …"
	}
	for _, key := range keys {
		if u.Has != nil && !u.Has(key) {
			s += " !" + key
		}
	}
	return s
}

// inParts follows "/" in parts of two keys. It returns the deliveries up to n updates with events
// or last parts.
func inParts(t *testing.T, s controlplane.Store, n int, keys ...string) (got []string) {
	t.Helper()
	enough := errors.New("enough")
	opts := controlplane.ListWatchOptions{Prefix: "/", PageSize: 2, Parts: true}
	err := controlplane.ListWatch(t.Context(), s, opts, func(u controlplane.Update) error {
		if u.Synced || len(u.Events) > 0 {
			got = append(got, describePart(u, keys...))
		}
		if len(got) == n {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	return got
}

func wantParts(t *testing.T, got []string, want ...string) {
	t.Helper()
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("updates %q, want %q", got, want)
	}
}

func commit(t *testing.T, s *memstore.Store, ops ...controlplane.Op) int64 {
	t.Helper()
	res, err := s.Commit(t.Context(), controlplane.Txn{Ops: ops})
	if err != nil {
		t.Fatal(err)
	}
	return res.Revision
}

func value(key, v string) controlplane.Op { return controlplane.Op{Key: key, Value: []byte(v)} }

func gone(key string) controlplane.Op { return controlplane.Op{Key: key, Delete: true} }

func TestListWatchPartsAreDeliveredAsTheyAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		commit(t, mem, value("/a", "1"), value("/b", "1"), value("/c", "1"))
		f := newFaulty(mem)
		f.failWatch = func(int) error { commit(t, mem, value("/a", "2")); return nil }
		got := inParts(t, f, 4, "/a", "/b", "/c")
		wantParts(t, got, "0 synced: /a=1@2 /b=1@2 …", "0 synced: /c=1@2 …", "2 synced:", "3: /a=2@3")
	})
}

// TestListWatchPartsBrokenOff checks that the next listing repeats nothing delivered before it
// broke off, and that keys deleted by then are absent.
func TestListWatchPartsBrokenOff(t *testing.T) {
	for name, err := range map[string]error{"unavailable": errUnavailable(), "compacted": errCompacted()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New()
				commit(t, mem, value("/a", "1"), value("/b", "1"), value("/c", "1"))
				f := newFaulty(mem)
				f.failList = func(n int) error {
					if n != 1 {
						return nil
					}
					commit(t, mem, gone("/b"), value("/c", "2"))
					return err
				}
				got := inParts(t, f, 3, "/a", "/b", "/c")
				wantParts(t, got, "0 synced: /a=1@2 /b=1@2 …", "0 synced: /c=2@3 …", "3 synced: !/b")
			})
		})
	}
}

func TestListWatchPartsOfAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		commit(t, mem, value("/a", "1"), value("/b", "1"), value("/c", "1"), value("/d", "1"))
		f := newFaulty(mem)
		f.failWatch = func(n int) error {
			if n > 0 {
				commit(t, mem, value("/e", "3"))
				return nil
			}
			commit(t, mem, gone("/b"), value("/c", "2"), value("/d", "2"), value("/0", "2"))
			return errCompacted()
		}
		got := inParts(t, f, 6, "/0", "/a", "/b", "/c", "/d", "/e")
		wantParts(t, got, "0 synced: /a=1@2 /b=1@2 …", "0 synced: /c=1@2 /d=1@2 …", "2 synced:",
			"2 synced: /0=2@3 …", "2 synced: /c=2@3 /d=2@3 …", "3 synced: !/b !/e")
	})
}

// TestScanPagesGrow checks that pages without a given size grow as far as suits the store, and that
// a single key larger than that is a page.
func TestScanPagesGrow(t *testing.T) {
	mem := memstore.New()
	want := map[string]int{}
	for i := range 3000 {
		key := fmt.Sprintf("/%04d", i)
		size := 10
		if i >= 980 && i < 1000 {
			size = 1 << 20
		}
		want[key] = size
		commit(t, mem, controlplane.Op{Key: key, Value: make([]byte, size)})
	}
	f := newFaulty(mem)
	got := map[string]int{}
	var parts []int
	revision, err := controlplane.Scan(t.Context(), f, controlplane.ListOptions{Prefix: "/"}, func(part []controlplane.KV) error {
		parts = append(parts, len(part))
		for _, kv := range part {
			got[kv.Key] = len(kv.Value)
		}
		if len(parts) == 1 {
			commit(t, mem, value("/0001x", "later"))
		}
		return nil
	})
	if err != nil || revision != 3001 || !maps.Equal(got, want) {
		t.Errorf("%d keys at revision %d: %v", len(got), revision, err)
	}
	if fmt.Sprint(parts) != "[1000 199 1592 209]" {
		t.Errorf("parts of %v keys", parts)
	}
	for i, opts := range f.lists[1:] {
		if opts.Revision != 3001 {
			t.Errorf("page %d is of revision %d", i+1, opts.Revision)
		}
	}
	broken := errors.New("broken")
	if _, err := controlplane.Scan(context.Background(), f, controlplane.ListOptions{Prefix: "/"}, func([]controlplane.KV) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}
