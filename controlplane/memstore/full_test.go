package memstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
)

// create puts an absent key, and returns the error.
func create(t *testing.T, s *memstore.Store, key, value string) error {
	t.Helper()
	_, err := s.Commit(t.Context(), controlplane.Txn{Compares: []controlplane.Compare{{Key: key}}, Ops: []controlplane.Op{put(key, value)}})
	return err
}

// TestQuota fills and frees a store: deletions free compacted versions, and the alarm lasts until
// the defragmentation.
func TestQuota(t *testing.T) {
	s := memstore.New(memstore.WithQuota(10_000))
	m := s.Maintenance()
	usage := func() controlplane.Usage {
		t.Helper()
		u, err := m.Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	value := strings.Repeat("x", 1000)
	n := 0
	for err := error(nil); ; n++ {
		if err = create(t, s, fmt.Sprint(n), value); err != nil {
			if !errors.Is(err, controlplane.ErrFull) {
				t.Fatal(err)
			}
			break
		}
	}
	full := usage()
	if n != 9 || !full.Alarm || full.File != full.InUse || full.File < 9000 || full.Quota != 10_000 {
		t.Errorf("after %d values: %+v", n, full)
	}
	ops := make([]controlplane.Op, n)
	for i := range ops {
		ops[i] = controlplane.Op{Key: fmt.Sprint(i), Delete: true}
	}
	r := commit(t, s, ops...)
	for range 2 { // the second one has nothing to do
		if err := m.Compact(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if u := usage(); !u.Alarm || u.InUse != 0 || u.File < full.File || u.Revision != r {
		t.Errorf("after compaction: %+v", u)
	}
	if err := create(t, s, "a", "small"); !errors.Is(err, controlplane.ErrFull) {
		t.Errorf("before the alarm has ended: %v", err)
	}
	if err := m.Defragment(t.Context()); err != nil {
		t.Fatal(err)
	}
	if u := usage(); u.Alarm || u.File != 0 {
		t.Errorf("after defragmentation: %+v", u)
	}
	if err := create(t, s, "a", value); err != nil {
		t.Error(err)
	}
}
