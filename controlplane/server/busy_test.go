package server

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// binder binds all waiting tasks, like a scheduler that only gets to it while admission is closed.
type binder struct {
	store controlplane.Store
	waits map[string]bool
	// most is the largest number of waiting tasks.
	most int
}

func (b *binder) take(ctx context.Context, u controlplane.Update) error {
	for _, e := range u.Events {
		k, _ := controlplane.Parse(e.Key)
		switch {
		case k.Kind == controlplane.Tasks && !e.Delete:
			b.waits[k.ID] = true
			b.most = max(b.most, len(b.waits))
		case e.Key == controlplane.AdmissionKey() && !e.Delete:
			if err := b.bind(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *binder) bind(ctx context.Context) error {
	change := controlplane.NewChange(controlplane.NewBatch())
	for id := range b.waits {
		change.IfUnchanged(controlplane.StatusKey("ns", id), 0)
		change.Put(controlplane.StatusKey("ns", id), &types.Status{Phase: types.Bound, Attempt: 1})
	}
	clear(b.waits)
	_, err := controlplane.Commit(ctx, b.store, change.Txn())
	return err
}

// TestTenClients submits from ten clients, faster than tasks are served. The clients must be slowed
// and told so, and every accepted task must exist once.
func TestTenClients(t *testing.T) {
	const clients, each, limit = 10, 400, 200
	s := newSmall(t, 1<<30)
	s.collect(func(p *Policy) { p.MaxPending = limit })
	b := &binder{store: s.store, waits: make(map[string]bool)}
	ctx, cancel := context.WithCancel(t.Context())
	var binding, running sync.WaitGroup
	binding.Go(func() {
		err := controlplane.ListWatch(ctx, s.store, controlplane.ListWatchOptions{Prefix: controlplane.Root}, func(u controlplane.Update) error { return b.take(ctx, u) })
		if ctx.Err() == nil {
			t.Error(err)
		}
	})
	defer binding.Wait()
	defer cancel()
	var accepted sync.Map
	var told [clients]atomic.Int32
	for i := range clients {
		c, err := controlplane.New(s.store, "ns", controlplane.WithNotice(func(string) { told[i].Add(1) }))
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			spec := &types.Spec{Image: "x"}
			for range each {
				got, err := c.Launch(t.Context(), controlplane.Submission{Task: types.Task{Name: "web"}, Spec: spec})
				if err != nil {
					t.Error(err)
					return
				}
				accepted.Store(got.Tasks[0], true)
			}
		})
	}
	running.Wait()
	for i := range told {
		if told[i].Load() == 0 {
			t.Errorf("client %d was not told that it is slowed", i)
		}
	}
	tasks, _, err := s.Tasks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if _, ok := accepted.LoadAndDelete(task.ID); !ok {
			t.Errorf("%s was not accepted, or is there twice", task.ID)
		}
	}
	if len(tasks) != clients*each {
		t.Errorf("there are %d tasks of %d", len(tasks), clients*each)
	}
	cancel()
	binding.Wait()
	t.Logf("%d waited at most", b.most)
	// The submissions between two passes exceed the limit, by how much depends on the machine.
	if b.most > clients*each/2 {
		t.Errorf("%d tasks waited at once, and about %d were to at most", b.most, limit)
	}
}

// TestLaunchSendsOnePartAtATime checks that a launch in several parts has one part in flight.
func TestLaunchSendsOnePartAtATime(t *testing.T) {
	s := newSmall(t, 1<<30)
	counting := &inFlight{Store: s.store}
	c, err := controlplane.New(counting, "ns")
	if err != nil {
		t.Fatal(err)
	}
	many := make([]controlplane.Submission, 10_000)
	spec := &types.Spec{Image: "x"}
	for i := range many {
		many[i] = controlplane.Submission{Task: types.Task{Name: "web"}, Spec: spec}
	}
	got, err := c.Launch(t.Context(), many...)
	if err != nil || got.Parts < 3 {
		t.Fatalf("%d parts, %v", got.Parts, err)
	}
	if n := counting.most.Load(); n != 1 {
		t.Errorf("%d parts were on their way at once", n)
	}
}

// inFlight counts the commits in flight.
type inFlight struct {
	controlplane.Store
	now, most atomic.Int32
}

func (f *inFlight) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	if n := f.now.Add(1); n > f.most.Load() {
		f.most.Store(n)
	}
	defer f.now.Add(-1)
	return f.Store.Commit(ctx, txn)
}
