package keep_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/keep"
	"github.com/escher-sched/escher/types"
)

// TestAsked shows which policies are called after which change.
func TestAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(nil))
		w.Keep(w.Store)
		if err := w.Jobs.Declare(t.Context(), "s", &esltest.Shared{Counter: esltest.Counter{Name: "shared"}}, ""); err != nil {
			t.Fatal(err)
		}
		a := w.Submit("a", 2, &esltest.Counter{Name: "a"})
		b := w.Submit("b", 1, &esltest.Counter{Name: "b"}, esl.Use{Name: "s"})
		w.Submit("c", 1, &esltest.Wide{Counter: esltest.Counter{Name: "wide"}})
		w.Submit("e", 1, &esltest.Watcher{Counter: esltest.Counter{Name: "watcher"}, On: []string{"a", "far"}})
		esltest.Pass(time.Second)
		all := []string{"a", "b", "wide", "watcher", "shared"}
		check := func(what string, want ...string) {
			t.Helper()
			esltest.Pass(time.Second)
			for _, name := range all {
				wanted := 0
				for _, one := range want {
					if one == name {
						wanted = 1
					}
				}
				if n := w.Asked.Count(name); n != wanted {
					t.Errorf("after %s, %s was asked %d times: want %d", what, name, n, wanted)
				}
			}
		}
		for _, name := range all {
			w.Asked.Count(name)
		}
		if err := w.Jobs.Stop(t.Context(), a.Tasks[0], controlplane.StopOptions{}); err != nil {
			t.Fatal(err)
		}
		check("a task of a", "a", "wide", "watcher")
		w.Pool("a.counter.x", 1000)
		check("a resource of a", "a", "wide")
		w.Pool("s.shared", 2000)
		check("a resource of the shared one", "shared", "wide")
		w.Pool("b.shared.x", 2000)
		check("a resource of a job that refers to it", "b", "shared", "wide")
		if err := w.Jobs.Stop(t.Context(), b.Tasks[0], controlplane.StopOptions{}); err != nil {
			t.Fatal(err)
		}
		check("a task of a job that refers to it", "b", "shared", "wide")
		w.Pool("far", 1000)
		check("a resource that is watched", "wide", "watcher")
		w.Pool("foreign", 1000)
		check("a resource without an owner", "wide")
		w.Put(controlplane.NodeKey("n1"), &types.Node{})
		check("a node", "a", "b", "wide", "watcher", "shared")
		w.Put(controlplane.AllocatedKey("n1"), &types.Allocated{})
		check("what is in use of a node", "wide")
	})
}

// TestCoalesced calls a policy at once after the first change, and once for all changes within a
// moment.
func TestCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(nil))
		w.Keep(w.Store)
		w.Submit("a", 1, &esltest.Counter{Name: "a"})
		w.Submit("p", 1, &esltest.Paced{Counter: esltest.Counter{Name: "paced"}})
		esltest.Pass(time.Minute)
		w.Asked.Count("a")
		w.Asked.Count("paced")
		w.Pool("a.counter.x", 1)
		if n := w.Asked.Count("a"); n != 1 {
			t.Errorf("after the first change it was asked %d times", n)
		}
		for i := range 100 {
			w.Pool("a.counter.x", types.Quantity(i+2))
			w.Pool("p.paced.x", types.Quantity(i+2))
			esltest.Pass(time.Millisecond)
		}
		esltest.Pass(time.Second)
		if n := w.Asked.Count("a"); n < 30 || n > 60 {
			t.Errorf("at a hundred changes in as many milliseconds it was asked %d times", n)
		}
		esltest.Pass(20 * time.Second)
		if n := w.Asked.Count("paced"); n != 6 { // at first, four times before its pace, and after it
			t.Errorf("the paced one was asked %d times", n)
		}
	})
}

// TestSlowLooks calls a slow policy that finds nothing to do less often, however much changes. It
// sees the last state in the end, and others are called as before.
func TestSlowLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(func(name string, s *esl.State) esl.Plan {
			if name == "slow" {
				time.Sleep(50 * time.Millisecond)
			}
			if p := s.Pool("level"); p != nil && (name != "slow" || p.Capacity() == 100_000) {
				return esltest.SetOwn(s, p.Capacity())
			}
			return esl.Plan{}
		}))
		w.Keep(w.Store)
		for _, name := range []string{"slow", "quick"} {
			w.Submit(name, 1, &esltest.Watcher{Counter: esltest.Counter{Name: name}, On: []string{"level"}})
		}
		esltest.Pass(time.Minute)
		w.Asked.Count("slow")
		w.Asked.Count("quick")
		for i := range 100 {
			w.Pool("level", types.Quantity(1000*(i+1)))
			esltest.Pass(100 * time.Millisecond)
		}
		if slow, quick := w.Asked.Count("slow"), w.Asked.Count("quick"); slow < 15 || slow > 25 || quick < 100 {
			t.Errorf("in 10 s the slow one was asked %d times, the other one %d", slow, quick)
		}
		esltest.Pass(time.Second)
		for _, name := range []string{"slow.watcher", "quick.watcher"} {
			if got := w.Capacity(name); got != 100_000 {
				t.Errorf("%s is %d", name, got)
			}
		}
	})
}

// TestAgain calls a policy at its last RequeueAfter, and not at an earlier one.
func TestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var at []time.Duration
		w := esltest.NewWorld(t, esltest.NewRecord(func(_ string, s *esl.State) esl.Plan {
			at = append(at, s.Now.Sub(begin))
			switch len(at) {
			case 1:
				return esl.Plan{RequeueAfter: begin.Add(time.Minute)}
			case 2:
				return esl.Plan{RequeueAfter: begin.Add(2 * time.Minute)}
			}
			return esl.Plan{}
		}))
		w.Keep(w.Store)
		w.Submit("a", 1, &esltest.Counter{Name: "a"})
		esltest.Pass(10 * time.Second)
		w.Pool("a.counter.x", 1)
		esltest.Pass(10 * time.Minute)
		want := []time.Duration{0, 10 * time.Second, 2 * time.Minute}
		if fmt.Sprint(at) != fmt.Sprint(want) {
			t.Errorf("it was asked at %v: want %v", at, want)
		}
	})
}

// TestWhose selects policies by namespace and session, and leaves unknown kinds alone.
func TestWhose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(func(_ string, s *esl.State) esl.Plan { return esltest.SetOwn(s, 1000) }))
		session, err := w.Jobs.OpenSession(t.Context(), "app", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		w.Submit("a", 1, &esltest.Counter{Name: "a"}, &esltest.Wide{Counter: esltest.Counter{Name: "w"}})
		task := controlplane.Submission{Task: types.Task{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}, Spec: &types.Spec{Image: "x"}}
		if _, err := w.Jobs.Submit(t.Context(), controlplane.Job{ID: "s", Session: session.ID, Tasks: esl.Copies(1, task)}, &esltest.Counter{Name: "s"}); err != nil {
			t.Fatal(err)
		}
		stop := w.Keep(w.Store, func(o *keep.Options) {
			o.Namespace = "d"
			delete(o.Kinds, "wide")
		})
		other := w.Keep(w.Store, func(o *keep.Options) { o.Namespace = "else" })
		esltest.Pass(time.Second)
		if a, s, wide := w.Capacity("a.counter"), w.Capacity("s.counter"), w.Capacity("a.wide"); a != 1000 || s != -1 || wide != -1 {
			t.Errorf("kept of all: %d; of the session: %d; of what is unknown: %d", a, s, wide)
		}
		stop()
		other()
		w.Keep(w.Store, func(o *keep.Options) { o.Session = session.ID })
		esltest.Pass(time.Second)
		if s := w.Capacity("s.counter"); s != 1000 {
			t.Errorf("kept of the session: %d", s)
		}
	})
}

// TestRemovedMeanwhile removes a policy during its commit, which then fails.
func TestRemovedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(func(_ string, s *esl.State) esl.Plan { return esltest.SetOwn(s, 1000) }))
		store := esltest.NewTrouble(w.Store)
		asked := make(chan struct{})
		store.Set(func(controlplane.Txn) (bool, bool) {
			c := controlplane.NewChange(controlplane.NewBatch())
			c.Delete(controlplane.PoliciesKey("d", "a"))
			if _, err := w.Store.Commit(context.Background(), c.Txn()); err != nil {
				t.Error(err)
			}
			close(asked)
			store.OnCommit = func(controlplane.Txn) (bool, bool) { return true, false }
			return true, false
		})
		w.Submit("a", 1, &esltest.Counter{Name: "a"})
		w.Keep(store)
		<-asked
		esltest.Pass(time.Minute)
		if got := w.Capacity("a.counter"); got != -1 {
			t.Errorf("it is %d", got)
		}
	})
}

// TestListedAgain compacts the history while a watch is interrupted.
func TestListedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(follow("level")))
		store := &cut{Store: w.Store}
		w.Keep(store)
		w.Submit("a", 1, &esltest.Watcher{Counter: esltest.Counter{Name: "a"}, On: []string{"level"}})
		b := w.Submit("b", 1, &esltest.Counter{Name: "b"})
		w.Pool("level", 1000)
		esltest.Pass(time.Second)
		store.sever()
		w.Pool("level", 2000)
		if err := w.Jobs.Stop(t.Context(), b.Tasks[0], controlplane.StopOptions{}); err != nil {
			t.Fatal(err)
		}
		c := controlplane.NewChange(controlplane.NewBatch())
		c.Delete(controlplane.PoliciesKey("d", "b"))
		if _, err := w.Store.Commit(t.Context(), c.Txn()); err != nil {
			t.Fatal(err)
		}
		if err := w.Store.Compact(t.Context(), w.Store.Revision()); err != nil {
			t.Fatal(err)
		}
		esltest.Pass(time.Minute)
		if got := w.Capacity("a.watcher"); got != 2000 {
			t.Errorf("it is %d", got)
		}
		w.Asked.Count("b")
		w.Put(controlplane.NodeKey("n1"), &types.Node{})
		esltest.Pass(time.Second)
		if n := w.Asked.Count("b"); n != 0 {
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

// TestNothingToKeep does not follow the cluster without a policy to run, and stops after the last
// one is gone.
func TestNothingToKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(nil))
		store := esltest.NewTrouble(w.Store)
		beats, heard := 0, 0
		var mu sync.Mutex
		w.Keep(store, func(o *keep.Options) {
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
			store.Mu.Lock()
			defer store.Mu.Unlock()
			return store.Lists[controlplane.Root]
		}
		w.Submit("a", 1, &esltest.Plain{})
		esltest.Pass(time.Minute)
		if n := followed(); n != 0 {
			t.Errorf("the cluster was listed %d times for a policy without anything to do", n)
		}
		mu.Lock()
		if beats < 10 || heard == 0 {
			t.Errorf("it beat %d times, and heard %d times", beats, heard)
		}
		mu.Unlock()
		w.Submit("b", 1, &esltest.Counter{Name: "b"})
		esltest.Pass(time.Second)
		if n, asked := followed(), w.Asked.Count("b"); n == 0 || asked != 1 {
			t.Errorf("the cluster was listed %d times, and the policy asked %d times", n, asked)
		}
		c := controlplane.NewChange(controlplane.NewBatch())
		c.Delete(controlplane.PoliciesKey("d", "b"))
		if _, err := w.Store.Commit(t.Context(), c.Txn()); err != nil {
			t.Fatal(err)
		}
		esltest.Pass(time.Minute)
		before := followed()
		w.Submit("e", 1, &esltest.Counter{Name: "e"})
		esltest.Pass(time.Second)
		if n := followed(); n != before+1 {
			t.Errorf("it was listed %d times, and then %d times: it was followed with nothing to keep", before, n)
		}
	})
}
