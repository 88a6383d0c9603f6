package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/types"
)

// small is a cluster on a real etcd with a small quota.
type small struct {
	*controlplane.Client
	t     *testing.T
	store *etcdstore.Store
	n     int
}

func newSmall(t *testing.T, quota int64) *small {
	t.Helper()
	srv := etcdtest.Start(t, etcdtest.WithQuota(quota))
	s := &small{t: t, store: etcdstore.New(srv.Client, etcdstore.ServerLimits(), etcdstore.WithProgressInterval(100*time.Millisecond))}
	c, err := controlplane.New(s.store, "ns")
	if err != nil {
		t.Fatal(err)
	}
	s.Client = c
	return s
}

// collect runs a collector with short intervals until the end of the test.
func (s *small) collect(change func(*Policy)) {
	s.t.Helper()
	p := DefaultPolicy()
	p.Interval, p.Gap, p.KeepMin = 50*time.Millisecond, 20*time.Millisecond, time.Minute
	if change != nil {
		change(&p)
	}
	c, err := NewCollector(s.store, NewMaintenance(s.store.Client(), 0), p, nil, Options{Logger: zaptest.NewLogger(s.t)})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background()) // the test's own context ends before the cleanup
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	s.t.Cleanup(func() {
		select {
		case err := <-ended:
			s.t.Errorf("the collector ended: %v", err)
		default:
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				s.t.Errorf("the collector ended with %v", err)
			}
		}
	})
}

// launch launches a task of some size.
func (s *small) launch(ctx context.Context) (id string, err error) {
	s.n++
	large := strings.Repeat("x", 100<<10)
	spec := &types.Spec{Image: "x", Command: []string{"run", large}, Env: []string{"X=" + large + fmt.Sprint(s.n)}}
	got, err := s.Launch(ctx, controlplane.Submission{Task: types.Task{Name: "web"}, Spec: spec})
	if err != nil {
		return "", err
	}
	return got.Tasks[0], nil
}

// end marks a task as ended, like a scheduler of a later version with a field of its own of that
// size.
func (s *small) end(id string, bytes int) error {
	key := controlplane.StatusKey("ns", id)
	value := types.Encode(controlplane.NewBatch(), &types.Status{Phase: types.Failed, Attempt: 1, Ended: time.Now().UnixNano()})
	value = protowire.AppendString(protowire.AppendTag(value, 200, protowire.BytesType), strings.Repeat("x", bytes))
	_, err := controlplane.Commit(s.t.Context(), s.store, controlplane.Txn{
		Compares: []controlplane.Compare{{Key: key, Target: controlplane.ModRevision}},
		Ops:      []controlplane.Op{{Key: key, Value: value}},
	})
	return err
}

// fill launches ended tasks until one is refused, and returns the error.
func (s *small) fill() error {
	s.t.Helper()
	for {
		id, err := s.launch(s.t.Context())
		if err != nil {
			return err
		}
		if err := s.end(id, 0); err != nil {
			return err
		}
	}
}

// untilOpen returns once admission is open.
func (s *small) untilOpen() {
	open := errors.New("open")
	err := controlplane.ListWatch(s.t.Context(), s.store, controlplane.ListWatchOptions{Prefix: controlplane.Prefix(controlplane.System)}, func(u controlplane.Update) error {
		there := u.Synced && len(u.Events) > 0 || !u.Synced && (len(u.Events) == 0 || !u.Events[len(u.Events)-1].Delete)
		if there {
			return nil
		}
		return open
	})
	if !errors.Is(err, open) {
		s.t.Error(err)
	}
}

// tasks returns the number of tasks, up to a bound.
func (s *small) tasks() int {
	s.t.Helper()
	page, err := s.store.List(s.t.Context(), controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Tasks), KeysOnly: true, Limit: 10})
	if err != nil {
		s.t.Fatal(err)
	}
	return len(page.KVs)
}

// TestNearlyFullDatabase checks that a filling etcd closes admission before it is full, and deletes
// ended tasks when little space is left even so. Once space is free, a refused client that tries
// again is admitted.
func TestNearlyFullDatabase(t *testing.T) {
	s := newSmall(t, 32<<20)
	// The writers of a test are faster than the passes.
	s.collect(func(p *Policy) { p.OpenBelow, p.CloseAt, p.PurgeAt = 0.25, 0.3, 0.5 })
	err := s.fill()
	if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "of its quota of 32 MiB: wait until ended tasks are deleted") {
		t.Fatalf("it is refused with %v", err)
	}
	if s.tasks() == 0 {
		t.Fatal("no task is kept")
	}
	// Existing tasks end, which takes more space: that is never refused.
	waits := make(chan error, 1)
	go func() {
		for {
			_, err := s.launch(t.Context())
			if err == nil || !types.Is(err, types.Precondition) {
				waits <- err
				return
			}
			s.untilOpen()
		}
	}()
	for i := 0; ; i++ {
		if err := s.end(fmt.Sprintf("other-%d", i), 400<<10); err != nil {
			t.Fatal(err)
		}
		if s.tasks() == 0 {
			break
		}
	}
	if err := <-waits; err != nil {
		t.Errorf("the waiting client got %v", err)
	}
}

// TestFullDatabaseRecovers checks that an unattended etcd that refuses every write recovers.
func TestFullDatabaseRecovers(t *testing.T) {
	s := newSmall(t, 16<<20)
	err := s.fill()
	if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "the database is full") {
		t.Fatalf("it is refused with %v", err)
	}
	s.collect(nil)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for {
		_, err := s.launch(ctx)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("it is refused still: %v", err)
		}
	}
}
