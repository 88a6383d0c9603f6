package esl_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// TestAsked shows who is asked after which change.
func TestAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newRecord(nil))
		w.keep(w.store)
		if err := w.jobs.Declare(t.Context(), "s", &shared{counter{Name: "shared"}}, ""); err != nil {
			t.Fatal(err)
		}
		a := w.submit("a", 2, &counter{Name: "a"})
		b := w.submit("b", 1, &counter{Name: "b"}, &member{Of: "s"})
		w.submit("c", 1, &wide{counter{Name: "wide"}})
		w.submit("e", 1, &watcher{counter: counter{Name: "watcher"}, On: []string{"a", "far"}})
		pass(time.Second)
		all := []string{"a", "b", "wide", "watcher", "shared"}
		check := func(what string, want ...string) {
			t.Helper()
			pass(time.Second)
			for _, name := range all {
				wanted := 0
				for _, one := range want {
					if one == name {
						wanted = 1
					}
				}
				if n := w.asked.count(name); n != wanted {
					t.Errorf("after %s, %s was asked %d times: want %d", what, name, n, wanted)
				}
			}
		}
		for _, name := range all {
			w.asked.count(name)
		}
		if err := w.jobs.Stop(t.Context(), a.Tasks[0], controlplane.StopOptions{}); err != nil {
			t.Fatal(err)
		}
		check("a task of a", "a", "wide", "watcher")
		w.pool("a.counter.x", 1000)
		check("a resource of a", "a", "wide")
		w.pool("s.shared", 2000)
		check("a resource of the shared one", "shared", "wide")
		w.pool("b.member.x", 2000)
		check("a resource of a job that refers to it", "b", "shared", "wide")
		if err := w.jobs.Stop(t.Context(), b.Tasks[0], controlplane.StopOptions{}); err != nil {
			t.Fatal(err)
		}
		check("a task of a job that refers to it", "b", "shared", "wide")
		w.pool("far", 1000)
		check("a resource that is watched", "wide", "watcher")
		w.pool("foreign", 1000)
		check("a resource of nobody", "wide")
		w.put(controlplane.NodeKey("n1"), &types.Node{})
		check("a node", "a", "b", "wide", "watcher", "shared")
		w.put(controlplane.AllocatedKey("n1"), &types.Allocated{})
		check("what is in use of a node", "wide")
	})
}

// TestCoalesced: what changes within a moment is looked at once, and the first change at
// once.
func TestCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newRecord(nil))
		w.keep(w.store)
		w.submit("a", 1, &counter{Name: "a"})
		w.submit("p", 1, &paced{counter{Name: "paced"}})
		pass(time.Minute)
		w.asked.count("a")
		w.asked.count("paced")
		w.pool("a.counter.x", 1)
		if n := w.asked.count("a"); n != 1 {
			t.Errorf("after the first change it was asked %d times", n)
		}
		for i := range 100 {
			w.pool("a.counter.x", types.Quantity(i+2))
			w.pool("p.paced.x", types.Quantity(i+2))
			pass(10 * time.Millisecond)
		}
		pass(time.Second)
		if n := w.asked.count("a"); n < 30 || n > 60 {
			t.Errorf("in a second of changes it was asked %d times", n)
		}
		pass(20 * time.Second)
		if n := w.asked.count("paced"); n != 2 {
			t.Errorf("the paced one was asked %d times", n)
		}
	})
}

// TestSlowLooks: who looks for long and finds nothing to do is asked more rarely, however much
// changes, and goes by what there is in the end; others are asked as ever.
func TestSlowLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newRecord(func(name string, s *esl.State) esl.Plan {
			if name == "slow" {
				time.Sleep(50 * time.Millisecond)
			}
			if p := s.Pool("level"); p != nil && (name != "slow" || p.Capacity() == 100_000) {
				return setOwn(s, p.Capacity())
			}
			return esl.Plan{}
		}))
		w.keep(w.store)
		for _, name := range []string{"slow", "quick"} {
			w.submit(name, 1, &watcher{counter: counter{Name: name}, On: []string{"level"}})
		}
		pass(time.Minute)
		w.asked.count("slow")
		w.asked.count("quick")
		for i := range 100 {
			w.pool("level", types.Quantity(1000*(i+1)))
			pass(100 * time.Millisecond)
		}
		if slow, quick := w.asked.count("slow"), w.asked.count("quick"); slow < 15 || slow > 25 || quick < 100 {
			t.Errorf("in 10 s the slow one was asked %d times, the other one %d", slow, quick)
		}
		pass(time.Second)
		for _, name := range []string{"slow.watcher", "quick.watcher"} {
			if got := w.capacity(name); got != 100_000 {
				t.Errorf("%s is %d", name, got)
			}
		}
	})
}

// TestAgain: a policy is asked at the time that it said, and not at one that it said
// before.
func TestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var at []time.Duration
		w := newWorld(t, newRecord(func(_ string, s *esl.State) esl.Plan {
			at = append(at, s.Now.Sub(begin))
			switch len(at) {
			case 1:
				return esl.Plan{Again: begin.Add(time.Minute)}
			case 2:
				return esl.Plan{Again: begin.Add(2 * time.Minute)}
			}
			return esl.Plan{}
		}))
		w.keep(w.store)
		w.submit("a", 1, &counter{Name: "a"})
		pass(10 * time.Second)
		w.pool("a.counter.x", 1)
		pass(10 * time.Minute)
		want := []time.Duration{0, 10 * time.Second, 2 * time.Minute}
		if fmt.Sprint(at) != fmt.Sprint(want) {
			t.Errorf("it was asked at %v: want %v", at, want)
		}
	})
}

// TestWhose: by namespace and session, and kinds that are not known are left alone.
func TestWhose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newRecord(func(_ string, s *esl.State) esl.Plan { return setOwn(s, 1000) }))
		session, err := w.jobs.OpenSession(t.Context(), "app", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		w.submit("a", 1, &counter{Name: "a"}, &wide{counter{Name: "w"}})
		task := controlplane.Submission{Task: types.Task{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}, Spec: &types.Spec{Image: "x"}}
		if _, err := w.jobs.Submit(t.Context(), esl.Job{ID: "s", Session: session.ID, Tasks: esl.Copies(1, task)}, &counter{Name: "s"}); err != nil {
			t.Fatal(err)
		}
		stop := w.keep(w.store, func(o *esl.KeepOptions) {
			o.Namespace = "d"
			delete(o.Kinds, "wide")
		})
		other := w.keep(w.store, func(o *esl.KeepOptions) { o.Namespace = "else" })
		pass(time.Second)
		if a, s, wide := w.capacity("a.counter"), w.capacity("s.counter"), w.capacity("a.wide"); a != 1000 || s != -1 || wide != -1 {
			t.Errorf("kept of all: %d; of the session: %d; of what is unknown: %d", a, s, wide)
		}
		stop()
		other()
		w.keep(w.store, func(o *esl.KeepOptions) { o.Session = session.ID })
		pass(time.Second)
		if s := w.capacity("s.counter"); s != 1000 {
			t.Errorf("kept of the session: %d", s)
		}
	})
}

// TestRemovedMeanwhile removes a policy while its plan is on its way: it is not done.
func TestRemovedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newRecord(func(_ string, s *esl.State) esl.Plan { return setOwn(s, 1000) }))
		store := newTrouble(w.store)
		asked := make(chan struct{})
		store.set(func(controlplane.Txn) (bool, bool) {
			c := controlplane.NewChange(controlplane.NewBatch())
			c.Delete(controlplane.PoliciesKey("d", "a"))
			if _, err := w.store.Commit(context.Background(), c.Txn()); err != nil {
				t.Error(err)
			}
			close(asked)
			store.commit = func(controlplane.Txn) (bool, bool) { return true, false }
			return true, false
		})
		w.submit("a", 1, &counter{Name: "a"})
		w.keep(store)
		<-asked
		pass(time.Minute)
		if got := w.capacity("a.counter"); got != -1 {
			t.Errorf("it is %d", got)
		}
	})
}

// TestListedAgain forgets the history while a watch is away.
func TestListedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newRecord(follow("level")))
		store := &cut{Store: w.store}
		w.keep(store)
		w.submit("a", 1, &watcher{counter: counter{Name: "a"}, On: []string{"level"}})
		b := w.submit("b", 1, &counter{Name: "b"})
		w.pool("level", 1000)
		pass(time.Second)
		store.sever()
		w.pool("level", 2000)
		if err := w.jobs.Stop(t.Context(), b.Tasks[0], controlplane.StopOptions{}); err != nil {
			t.Fatal(err)
		}
		c := controlplane.NewChange(controlplane.NewBatch())
		c.Delete(controlplane.PoliciesKey("d", "b"))
		if _, err := w.store.Commit(t.Context(), c.Txn()); err != nil {
			t.Fatal(err)
		}
		if err := w.store.Compact(t.Context(), w.store.Revision()); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if got := w.capacity("a.watcher"); got != 2000 {
			t.Errorf("it is %d", got)
		}
		w.asked.count("b")
		w.put(controlplane.NodeKey("n1"), &types.Node{})
		pass(time.Second)
		if n := w.asked.count("b"); n != 0 {
			t.Errorf("what was removed meanwhile was asked %d times", n)
		}
	})
}

// cut is a store whose watches can be broken.
type cut struct {
	*memstore.Store
	mu     sync.Mutex
	cancel []context.CancelFunc
}

func (s *cut) sever() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.cancel {
		f()
	}
	s.cancel = nil
}

func (s *cut) Watch(ctx context.Context, opts controlplane.WatchOptions) <-chan controlplane.Batch {
	inner, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	s.cancel = append(s.cancel, cancel)
	s.mu.Unlock()
	out := make(chan controlplane.Batch)
	go func() {
		defer close(out)
		for b := range s.Store.Watch(inner, opts) {
			select {
			case out <- b:
			case <-ctx.Done():
				return
			}
		}
		if ctx.Err() == nil {
			select {
			case out <- controlplane.Batch{Err: types.Errorf(types.Unavailable, "broken")}:
			case <-ctx.Done():
			}
		}
	}()
	return out
}

// TestNothingToKeep: without a policy that has something to do, the cluster is not
// followed, and not any more when the last one is gone.
func TestNothingToKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newRecord(nil))
		store := newTrouble(w.store)
		beats, heard := 0, 0
		var mu sync.Mutex
		w.keep(store, func(o *esl.KeepOptions) {
			o.Beat = func(from bool) {
				mu.Lock()
				defer mu.Unlock()
				if from {
					heard++
				} else {
					beats++
				}
			}
		})
		followed := func() int {
			synctest.Wait()
			store.mu.Lock()
			defer store.mu.Unlock()
			return store.lists[controlplane.Root]
		}
		w.submit("a", 1, &plain{})
		pass(time.Minute)
		if n := followed(); n != 0 {
			t.Errorf("the cluster was listed %d times for a policy without anything to do", n)
		}
		mu.Lock()
		if beats < 10 || heard == 0 {
			t.Errorf("it beat %d times, and heard %d times", beats, heard)
		}
		mu.Unlock()
		w.submit("b", 1, &counter{Name: "b"})
		pass(time.Second)
		if n, asked := followed(), w.asked.count("b"); n == 0 || asked != 1 {
			t.Errorf("the cluster was listed %d times, and the policy asked %d times", n, asked)
		}
		c := controlplane.NewChange(controlplane.NewBatch())
		c.Delete(controlplane.PoliciesKey("d", "b"))
		if _, err := w.store.Commit(t.Context(), c.Txn()); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		before := followed()
		w.submit("e", 1, &counter{Name: "e"})
		pass(time.Second)
		if n := followed(); n != before+1 {
			t.Errorf("it was listed %d times, and then %d times: it was followed with nothing to keep", before, n)
		}
	})
}
