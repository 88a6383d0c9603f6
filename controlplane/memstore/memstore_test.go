package memstore_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/storetest"
	"github.com/escher-sched/escher/types"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) controlplane.Store { return memstore.New() })
}

// TestConformanceShared runs the suite on one store, as on etcd.
func TestConformanceShared(t *testing.T) {
	s := memstore.New()
	storetest.Run(t, func(*testing.T) controlplane.Store { return s })
}

func put(key, value string) controlplane.Op {
	return controlplane.Op{Key: key, Value: []byte(value)}
}

func commit(t testing.TB, s *memstore.Store, ops ...controlplane.Op) int64 {
	t.Helper()
	result, err := s.Commit(t.Context(), controlplane.Txn{Ops: ops})
	if err != nil {
		t.Fatal(err)
	}
	return result.Revision
}

func TestFirstChangeIsRevisionTwo(t *testing.T) {
	s := memstore.New()
	if got := s.Revision(); got != 1 {
		t.Errorf("an empty store is at %d, want 1", got)
	}
	if got := commit(t, s, put("a", "")); got != 2 || s.Revision() != 2 {
		t.Errorf("the first change is at %d, the store at %d, want 2", got, s.Revision())
	}
	if got := commit(t, s, controlplane.Op{Key: "b", Delete: true}); got != 2 {
		t.Errorf("no change is at %d, want 2", got)
	}
}

func TestEventsAreAWatchWithoutAGoroutine(t *testing.T) {
	s := memstore.New()
	if got := s.Events(1); len(got) != 0 {
		t.Errorf("an empty store has events %v", got)
	}
	commit(t, s, put("a", "1"), put("b", "1"))
	commit(t, s, put("a", "2"))
	commit(t, s, controlplane.Op{Key: "b", Delete: true})
	got := s.Events(3)
	if len(got) != 2 || got[0].Revision != 3 || got[1].Revision != 4 || !got[1].Events[0].Delete {
		t.Errorf("events from 3 are %v", got)
	}
	if got := s.Events(5); len(got) != 0 {
		t.Errorf("events of the future are %v", got)
	}
	if err := s.Compact(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if got := s.Events(3); len(got) != 2 {
		t.Errorf("events from the compaction on are %v", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("events before the compaction were returned")
		}
	}()
	s.Events(2)
}

func TestLeasesFollowTheClockOfTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		id, err := s.GrantLease(t.Context(), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		commit(t, s, controlplane.Op{Key: "a", Lease: id})
		time.Sleep(9 * time.Second)
		if _, err := s.RenewLease(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Second - 1)
		synctest.Wait()
		if got := s.Revision(); got != 2 {
			t.Errorf("the lease ended before its time: revision %d", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := s.Revision(); got != 3 {
			t.Errorf("the lease did not end: revision %d", got)
		}
		if _, err := s.RenewLease(t.Context(), id); !types.Is(err, types.NotFound) {
			t.Errorf("renewal after its end: %v", err)
		}
	})
}

func TestWithoutExpiryOnlyExpireLeaseEndsALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.WithoutExpiry())
		id, err := s.GrantLease(t.Context(), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		commit(t, s, controlplane.Op{Key: "a", Lease: id})
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := s.Revision(); got != 2 {
			t.Errorf("time ended the lease: revision %d", got)
		}
		s.ExpireLease(id)
		s.ExpireLease(id)
		if got := s.Revision(); got != 3 {
			t.Errorf("revision %d after the end, want 3", got)
		}
	})
}

func TestLimitsAreEnforced(t *testing.T) {
	limits := controlplane.Limits{Ops: 2, Bytes: 100}
	s := memstore.New(memstore.WithLimits(limits))
	if s.Limits() != limits {
		t.Errorf("limits are %v", s.Limits())
	}
	_, err := s.Commit(t.Context(), controlplane.Txn{Ops: []controlplane.Op{put("a", ""), put("b", ""), put("c", "")}})
	if !types.Is(err, types.Invalid) {
		t.Errorf("3 operations: %v", err)
	}
	_, err = s.Commit(t.Context(), controlplane.Txn{Ops: []controlplane.Op{put("a", string(make([]byte, 100)))}})
	if !types.Is(err, types.Invalid) {
		t.Errorf("100 bytes: %v", err)
	}
}

// BenchmarkCommit is the bind of one task: two keys compared and written, one created.
func BenchmarkCommit(b *testing.B) {
	for _, watchers := range []int{0, 1000} {
		b.Run(fmt.Sprintf("watchers=%d", watchers), func(b *testing.B) {
			s := memstore.New(memstore.WithoutExpiry())
			for i := range watchers {
				go func() {
					for range s.Watch(b.Context(), controlplane.WatchOptions{Prefix: fmt.Sprintf("bindings/n%d/", i), From: 2}) {
						continue
					}
				}()
			}
			value := make([]byte, 200)
			allocated, last := make([]int64, 1000), make([]int64, 1000)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				n := i % 1000
				node := fmt.Sprintf("allocated/n%d", n)
				task := fmt.Sprintf("status/t%d", n)
				result, err := s.Commit(b.Context(), controlplane.Txn{
					Compares: []controlplane.Compare{{Key: node, Revision: allocated[n]}, {Key: task, Revision: last[n]}},
					Ops: []controlplane.Op{
						{Key: node, Value: value}, {Key: task, Value: value},
						{Key: fmt.Sprintf("bindings/n%d/t%d", n, i), Value: value},
					},
				})
				if err != nil || !result.Committed {
					b.Fatal(result, err)
				}
				allocated[n], last[n] = result.Revision, result.Revision
				if i%10_000 == 9_999 {
					if err := s.Compact(b.Context(), result.Revision-1000); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
