package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/types"
)

// memMaintenance is the maintenance of a memory store.
type memMaintenance struct {
	*memstore.Store

	mu           sync.Mutex
	usage        controlplane.Usage
	defragmented int
	compactions  int
}

// set sets the usage.
func (m *memMaintenance) set(u controlplane.Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.usage = u
}

func (m *memMaintenance) Usage(context.Context) (controlplane.Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.usage
	u.Revision = m.Revision()
	return u, nil
}

func (m *memMaintenance) Compact(ctx context.Context, revision int64) error {
	m.mu.Lock()
	m.compactions++
	m.mu.Unlock()
	if err := m.Store.Compact(ctx, revision); !types.Is(err, types.Compacted) {
		return err
	}
	return nil
}

// compacted returns the number of compactions.
func (m *memMaintenance) compacted() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.compactions
}

func (m *memMaintenance) Defragment(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.defragmented++
	return nil
}

// collect runs a collector in a bubble, and calls body once it has no more work.
func collect(t *testing.T, guard []controlplane.Compare, state []put, body func(m *memMaintenance)) error {
	t.Helper()
	var err error
	synctest.Test(t, func(t *testing.T) {
		m := &memMaintenance{Store: memstore.New(), usage: controlplane.Usage{Quota: 1000}}
		write(t, m.Store, state...)
		c, newErr := NewCollector(m.Store, m, DefaultPolicy(), guard, Options{Logger: zaptest.NewLogger(t)})
		if newErr != nil {
			t.Fatal(newErr)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		body(m)
		cancel()
		err = <-ended
	})
	return err
}

func write(t *testing.T, s controlplane.Store, state ...put) {
	t.Helper()
	for _, p := range state {
		change := controlplane.NewChange(controlplane.NewBatch())
		change.Put(p.key, p.m)
		if _, err := s.Commit(t.Context(), change.Txn()); err != nil {
			t.Fatal(err)
		}
	}
}

func remove(t *testing.T, s controlplane.Store, key string) {
	t.Helper()
	txn := controlplane.Txn{Ops: []controlplane.Op{{Key: key, Delete: true}}}
	if _, err := s.Commit(t.Context(), txn); err != nil {
		t.Fatal(err)
	}
}

// wantKeys checks the keys of a store, without the root.
func wantKeys(t *testing.T, s controlplane.Store, want ...string) {
	t.Helper()
	page, err := s.List(t.Context(), controlplane.ListOptions{Prefix: controlplane.Root})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, kv := range page.KVs {
		got = append(got, short(kv.Key))
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("there are %q, want %q", got, want)
	}
}

func TestCollectorFollows(t *testing.T) {
	state := []put{
		aSession("s"), resource("*", types.Resource{Lifetime: types.OfSession, Owner: "s"}),
		reservation("r", types.Reservation{Session: "s"}), aTask("a", types.Task{Session: "s"}),
	}
	err := collect(t, nil, state, func(m *memMaintenance) {
		time.Sleep(time.Minute + 5*time.Second)
		wantKeys(t, m, "reservations/ns/r", "resources/ns/r/*", "sessions/ns/s", "tasks/ns/a")
		remove(t, m, controlplane.SessionKey("ns", "s"))
		time.Sleep(2 * time.Second)
		wantKeys(t, m, "tasks/ns/a")
		page, err := m.List(t.Context(), controlplane.ListOptions{Key: controlplane.TaskKey("ns", "a")})
		if err != nil {
			t.Fatal(err)
		}
		var a types.Task
		if err := types.Decode(page.KVs[0].Value, &a); err != nil {
			t.Fatal(err)
		}
		if a.Stop == nil || a.Stop.Reason != "session s ended" {
			t.Errorf("the task is not stopped: %+v", a.Stop)
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
}

// TestCollectorEndsJobs checks that dependents of a job end with its last task, not with the
// deletion of its tasks, and that later ones end too.
func TestCollectorEndsJobs(t *testing.T) {
	state := []put{
		aTask("a", types.Task{Job: "j"}), aTask("b", types.Task{Job: "j"}), jobOf(2, "j"),
		ofJob(), reservation("r", types.Reservation{Job: "j"}), policies("j", types.Policies{Job: "j"}),
	}
	err := collect(t, nil, state, func(m *memMaintenance) {
		write(t, m.Store, status("a", types.Status{Phase: types.Succeeded, Ended: time.Now().UnixNano()}))
		time.Sleep(time.Minute)
		wantKeys(t, m, "jobs/ns/j", "policies/ns/j", "reservations/ns/r", "resources/ns/r/*", "status/ns/a", "tasks/ns/a", "tasks/ns/b")
		write(t, m.Store, status("b", types.Status{Phase: types.Failed, Ended: time.Now().UnixNano()}))
		time.Sleep(1100 * time.Millisecond)
		wantKeys(t, m, "jobs/ns/j", "status/ns/a", "status/ns/b", "tasks/ns/a", "tasks/ns/b")
		write(t, m.Store, ofJob())
		time.Sleep(1100 * time.Millisecond)
		wantKeys(t, m, "jobs/ns/j", "status/ns/a", "status/ns/b", "tasks/ns/a", "tasks/ns/b")
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
}

// TestCollectorKeepsWhatJobsHold replaces collectors while a job continues for hours after one of
// its tasks ended.
func TestCollectorKeepsWhatJobsHold(t *testing.T) {
	state := []put{
		aTask("a", types.Task{Job: "j"}), aTask("b", types.Task{Job: "j"}), jobOf(2, "j"), policies("j", types.Policies{Job: "j"}),
	}
	all := []string{"jobs/ns/j", "policies/ns/j", "status/ns/a", "tasks/ns/a", "tasks/ns/b"}
	err := collect(t, nil, state, func(m *memMaintenance) {
		write(t, m.Store, status("a", types.Status{Phase: types.Succeeded, Ended: time.Now().UnixNano()}))
		for range 5 {
			c, err := NewCollector(m.Store, m, DefaultPolicy(), nil, Options{Logger: zap.NewNop()})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- c.Run(ctx) }()
			time.Sleep(time.Hour)
			wantKeys(t, m, all...)
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("Run = %v", err)
			}
		}
		write(t, m.Store, status("b", types.Status{Phase: types.Succeeded, Ended: time.Now().UnixNano()}))
		time.Sleep(59 * time.Minute)
		wantKeys(t, m, "jobs/ns/j", "status/ns/a", "status/ns/b", "tasks/ns/a", "tasks/ns/b")
		time.Sleep(2 * time.Minute)
		wantKeys(t, m)
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
}

func TestCollectorRetains(t *testing.T) {
	err := collect(t, nil, nil, func(m *memMaintenance) {
		write(t, m.Store,
			put{controlplane.SpecKey("ns", "digest"), &types.Spec{}}, aTask("a", types.Task{Job: "j", Spec: "digest"}), aJob("j"),
			status("a", types.Status{Phase: types.Succeeded, Ended: time.Now().UnixNano()}))
		time.Sleep(time.Hour - time.Minute)
		wantKeys(t, m, "jobs/ns/j", "specs/ns/digest", "status/ns/a", "tasks/ns/a")
		time.Sleep(2 * time.Minute)
		wantKeys(t, m, "specs/ns/digest")
		time.Sleep(11 * time.Minute)
		wantKeys(t, m)
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
}

func TestCollectorCompacts(t *testing.T) {
	err := collect(t, nil, nil, func(m *memMaintenance) {
		write(t, m.Store, aSession("s"), aSession("s"))
		at := m.Revision()
		read := func(revision int64) error {
			_, err := m.List(t.Context(), controlplane.ListOptions{Prefix: controlplane.Root, Revision: revision})
			return err
		}
		time.Sleep(29 * time.Second)
		if err := read(at - 1); err != nil {
			t.Errorf("history of half a minute is gone: %v", err)
		}
		time.Sleep(32 * time.Second)
		if err := read(at - 1); !types.Is(err, types.Compacted) {
			t.Errorf("history of a minute: %v, want Compacted", err)
		}
		if err := read(at); err != nil {
			t.Errorf("the present is gone: %v", err)
		}
		before := m.compacted()
		time.Sleep(10 * time.Minute)
		if n := m.compacted() - before; n > 0 {
			t.Errorf("%d compactions while nothing changes, want none", n)
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
}

func TestCollectorClosesAndOpens(t *testing.T) {
	err := collect(t, nil, nil, func(m *memMaintenance) {
		m.set(controlplane.Usage{InUse: 700, Quota: 1000})
		time.Sleep(31 * time.Second)
		wantKeys(t, m, "system/admission")
		m.set(controlplane.Usage{InUse: 600, Quota: 1000})
		time.Sleep(30 * time.Second)
		wantKeys(t, m)
		m.set(controlplane.Usage{InUse: 400, Quota: 1000, Alarm: true})
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if m.defragmented != 1 {
			t.Errorf("it was defragmented %d times, want once", m.defragmented)
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
}

func TestCollectorThatDoesNotLead(t *testing.T) {
	guard := []controlplane.Compare{created(controlplane.LeaderKey("collector"), 7)}
	state := []put{resource("*", types.Resource{Lifetime: types.OfSession, Owner: "s"})}
	err := collect(t, guard, state, func(m *memMaintenance) {
		time.Sleep(time.Minute)
		wantKeys(t, m, "resources/ns/r/*")
	})
	if !types.Is(err, types.Conflict) {
		t.Errorf("Run = %v, want Conflict", err)
	}
}

// TestStaleStepsAreLeftOut performs steps of which some are out of date.
func TestStaleStepsAreLeftOut(t *testing.T) {
	s := memstore.New()
	d := new(index).at(now(), DefaultPolicy())
	for i := range 300 {
		id := string(rune('a'+i/100)) + string(rune('a'+i/10%10)) + string(rune('a'+i%10))
		write(t, s, aSession(id))
		mod := s.Revision()
		if i%100 == 50 {
			write(t, s, aSession(id))
		}
		d.remove(ownerGone, controlplane.SessionKey("ns", id), mod, nil)
	}
	c, err := NewCollector(s, &memMaintenance{Store: s}, DefaultPolicy(), nil, Options{Logger: zaptest.NewLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	undone, err := c.perform(t.Context(), d.steps)
	if err != nil || len(undone) != 3 {
		t.Fatalf("%d steps are not done, %v", len(undone), err)
	}
	wantKeys(t, s, "sessions/ns/afa", "sessions/ns/bfa", "sessions/ns/cfa")
}

func TestMaintenance(t *testing.T) {
	srv := etcdtest.Start(t, etcdtest.WithQuota(64<<20))
	s := etcdstore.New(srv.Client, etcdstore.ServerLimits())
	m := NewMaintenance(srv.Client, 0)
	write(t, s, aSession("s"), aSession("s"), aSession("s"))
	u, err := m.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if u.Quota != 64<<20 || u.InUse <= 0 || u.File < u.InUse || u.Alarm || u.Revision != 4 {
		t.Errorf("Usage = %+v", u)
	}
	for range 2 {
		if err := m.Compact(t.Context(), u.Revision); err != nil {
			t.Errorf("Compact = %v", err)
		}
	}
	_, err = s.List(t.Context(), controlplane.ListOptions{Prefix: controlplane.Root, Revision: u.Revision - 1})
	if !types.Is(err, types.Compacted) {
		t.Errorf("List = %v, want Compacted", err)
	}
	if err := m.Defragment(t.Context()); err != nil {
		t.Errorf("Defragment = %v", err)
	}
}

// TestCollectorFreesWhatIsStuck checks that a database that refuses every write is defragmented,
// but not again and again.
func TestCollectorFreesWhatIsStuck(t *testing.T) {
	err := collect(t, nil, []put{aSession("s")}, func(m *memMaintenance) {
		m.set(controlplane.Usage{InUse: 990, File: 1000, Quota: 1000, Alarm: true})
		for _, at := range []struct {
			after time.Duration
			want  int
		}{{4 * time.Second, 0}, {2 * time.Minute, 1}, {7 * time.Minute, 1}, {5 * time.Minute, 2}} {
			time.Sleep(at.after)
			m.mu.Lock()
			if m.defragmented != at.want {
				t.Errorf("it was defragmented %d times, want %d", m.defragmented, at.want)
			}
			m.mu.Unlock()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
}

// TestLargeTasksAreStopped stops many large tasks, more than fit one transaction.
func TestLargeTasksAreStopped(t *testing.T) {
	large := &types.Task{Session: "s"}
	for i := range types.MaxAlternatives {
		var requests types.Requests
		for j := range types.MaxRequests {
			requests = append(requests, types.Request{Name: fmt.Sprintf("label-%02d-%03d", i, j), Amount: 1})
		}
		large.Alternatives = append(large.Alternatives, types.Alternative{Requests: requests})
	}
	var state []put
	for i := range 100 {
		state = append(state, put{controlplane.TaskKey("ns", fmt.Sprintf("t-%03d", i)), large})
	}
	err := collect(t, nil, state, func(m *memMaintenance) {
		time.Sleep(time.Minute)
		kvs, _, err := controlplane.ListAll(t.Context(), m.Store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Tasks)})
		if err != nil || len(kvs) != len(state) {
			t.Errorf("there are %d tasks, %v", len(kvs), err)
		}
		for _, kv := range kvs {
			var task types.Task
			if err := types.Decode(kv.Value, &task); err != nil || task.Stop == nil {
				t.Errorf("%s is not stopped, %v", kv.Key, err)
				break
			}
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
}
