package keep_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/ids"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/keep"
	"github.com/escher-sched/escher/types"
)

// follow gives the pool of a policy the capacity of pool level.
func follow(level string) func(string, *esl.State) esl.Plan {
	return func(_ string, s *esl.State) esl.Plan {
		p := s.Pool(level)
		if p == nil {
			return esl.Plan{}
		}
		return esltest.SetOwn(s, p.Capacity())
	}
}

// TestUnknownOutcomes loses answers, and refuses commits: the desired state is reached in the end.
func TestUnknownOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(follow("level")))
		store, r, fate := esltest.NewTrouble(w.Store), rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(3, 4))
		store.Set(func(controlplane.Txn) (bool, bool) { return fate.IntN(3) > 0, fate.IntN(3) == 0 })
		w.Keep(store)
		w.Submit("a", 1, &esltest.Watcher{Counter: esltest.Counter{Name: "a"}, On: []string{"level"}})
		for i := range 20 {
			w.Pool("level", types.Quantity(1000*(i+1)))
			esltest.Pass(time.Duration(r.IntN(100)) * time.Millisecond)
		}
		esltest.Pass(time.Minute)
		if got := w.Capacity("a.watcher"); got != 20_000 {
			t.Errorf("it is %d", got)
		}
	})
}

// TestStoreAway makes the store unreachable for a minute: then the loop goes on, without too many
// calls meanwhile.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(follow("level")))
		store := esltest.NewTrouble(w.Store)
		store.Set(func(controlplane.Txn) (bool, bool) { return false, false })
		w.Keep(store)
		w.Submit("a", 1, &esltest.Watcher{Counter: esltest.Counter{Name: "a"}, On: []string{"level"}})
		w.Pool("level", 3000)
		esltest.Pass(time.Minute)
		if n := store.Done(); n < 3 || n > 600 {
			t.Errorf("it was tried %d times", n)
		}
		store.Set(func(controlplane.Txn) (bool, bool) { return true, false })
		esltest.Pass(20 * time.Second)
		if got := w.Capacity("a.watcher"); got != 3000 {
			t.Errorf("it is %d", got)
		}
	})
}

// TestTwoAtOnce runs the same policies twice, with commits delayed at random: no decision on a
// newer state is undone.
func TestTwoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(follow("level")))
		w.Keep(&delayed{Store: w.Store, r: rand.New(rand.NewPCG(1, 1))})
		w.Keep(&delayed{Store: w.Store, r: rand.New(rand.NewPCG(2, 2))})
		w.Submit("a", 1, &esltest.Watcher{Counter: esltest.Counter{Name: "a"}, On: []string{"level"}})
		for i := range 50 {
			w.Pool("level", types.Quantity(1000*(i+1)))
			esltest.Pass(50 * time.Millisecond)
		}
		esltest.Pass(time.Minute)
		if got := w.Capacity("a.watcher"); got != 50_000 {
			t.Errorf("it is %d", got)
		}
		last := int64(0)
		for _, b := range w.Store.Events(1) {
			for _, e := range b.Events {
				if strings.HasPrefix(e.Key, controlplane.Prefix(controlplane.Resources, "d", "a.watcher")) {
					var r types.Resource
					if err := types.Decode(e.Value, &r); err != nil {
						t.Fatal(err)
					}
					if int64(r.Capacity) < last {
						t.Errorf("it went back from %d to %d", last, r.Capacity)
					}
					last = int64(r.Capacity)
				}
			}
		}
	})
}

// delayed is a store with slow commits.
type delayed struct {
	*memstore.Store
	mu sync.Mutex
	r  *rand.Rand
}

func (s *delayed) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	s.mu.Lock()
	wait := time.Duration(s.r.IntN(200)) * time.Millisecond
	s.mu.Unlock()
	time.Sleep(wait)
	return s.Store.Commit(ctx, txn)
}

// TestTakeover kills the running process at each commit in turn, before or after it: the next one
// goes on.
func TestTakeover(t *testing.T) {
	for kill := range 12 {
		t.Run(fmt.Sprint(kill), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// It counts to 5, one step at a time.
				w := esltest.NewWorld(t, esltest.NewRecord(func(_ string, s *esl.State) esl.Plan {
					p := s.Pool(s.Own(""))
					if p == nil {
						return esltest.SetOwn(s, 1000)
					}
					return esltest.SetOwn(s, min(p.Capacity()+1000, 5000))
				}))
				w.Submit("a", 1, &esltest.Counter{Name: "a"})
				store, ctx := esltest.NewTrouble(w.Store), make(chan struct{})
				n := 0
				store.Set(func(controlplane.Txn) (bool, bool) {
					if n++; n == kill/2+1 {
						close(ctx)
						return kill%2 == 0, true
					}
					return true, false
				})
				stop := w.Keep(store)
				timeout := time.After(time.Minute)
				select {
				case <-ctx:
				case <-timeout:
				}
				stop()
				if got := w.Capacity("a.counter"); kill < 10 && got > types.Quantity(1000*(kill/2+1)) {
					t.Errorf("it went on to %d though it was killed", got)
				}
				w.Keep(w.Store)
				esltest.Pass(time.Minute)
				if got := w.Capacity("a.counter"); got != 5000 {
					t.Errorf("it is %d", got)
				}
				if n := esltest.Steps(w, "a.counter"); n != 5 {
					t.Errorf("it took %d steps", n)
				}
			})
		})
	}
}

// TestOwnChangeFirst waits until a late watch shows the last commit before the next decision.
func TestOwnChangeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(func(_ string, s *esl.State) esl.Plan {
			if len(s.View.Reservations) > 0 {
				return esl.Plan{}
			}
			r := types.Reservation{Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1})}}}
			return esl.Plan{Reserve: []controlplane.Reservation{{ID: ids.New("r"), Reservation: r}}}
		}))
		w.Keep(&late{w.Store})
		w.Submit("a", 1, &esltest.Counter{Name: "a"})
		for i := range 10 {
			w.Pool("a.counter.x", types.Quantity(1000*(i+1)))
			esltest.Pass(100 * time.Millisecond)
		}
		esltest.Pass(time.Minute)
		page, err := w.Store.List(t.Context(), controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Reservations)})
		if err != nil || len(page.KVs) != 1 {
			t.Errorf("there are %d reservations, %v", len(page.KVs), err)
		}
	})
}

// late is a store whose watches are half a second late.
type late struct{ *memstore.Store }

func (s *late) Watch(ctx context.Context, opts controlplane.WatchOptions) <-chan controlplane.Batch {
	out := make(chan controlplane.Batch)
	go func() {
		defer close(out)
		for b := range s.Store.Watch(ctx, opts) {
			time.Sleep(500 * time.Millisecond)
			select {
			case out <- b:
			case <-ctx.Done():
			}
		}
	}()
	return out
}

// TestWrongPlans bounds the retries of wrong plans, and logs each error once.
func TestWrongPlans(t *testing.T) {
	for name, next := range map[string]func(string, *esl.State) esl.Plan{
		"invalid": func(string, *esl.State) esl.Plan {
			return esl.Plan{Set: []controlplane.Resource{{Name: "", Capacity: 1}}}
		},
		"missing": func(string, *esl.State) esl.Plan { return esl.Plan{Evict: []esl.Evict{{Task: "none", Attempt: 1}}} },
		"panics":  func(string, *esl.State) esl.Plan { panic("oh no") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen, logs := observer.New(zapcore.WarnLevel)
				w := esltest.NewWorld(t, nil)
				w.Asked = esltest.NewRecord(func(name string, s *esl.State) esl.Plan {
					if name == "good" {
						return esltest.SetOwn(s, 7000)
					}
					return next(name, s)
				})
				w.Jobs = w.Client("d")
				w.Keep(w.Store, func(o *keep.Options) { o.Log = zap.New(seen) })
				w.Submit("a", 1, &esltest.Counter{Name: "a"})
				w.Submit("b", 1, &esltest.Counter{Name: "good"})
				esltest.Pass(10 * time.Minute)
				if n := w.Asked.Count("a"); n < 5 || n > 60 {
					t.Errorf("it was asked %d times", n)
				}
				if n := logs.Len(); n != 1 {
					t.Errorf("it was said %d times: %v", n, logs.All())
				}
				if got := w.Capacity("b.counter"); got != 7000 {
					t.Errorf("another one is at %d", got)
				}
			})
		})
	}
}

// TestDoneAndNothingCame commits a plan that changes nothing once.
func TestDoneAndNothingCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(func(_ string, s *esl.State) esl.Plan {
			return esl.Plan{Set: []controlplane.Resource{{Name: s.Own(""), Capacity: 1000, Where: controlplane.InCluster()}}}
		}))
		store := esltest.NewTrouble(w.Store)
		w.Keep(store)
		w.Submit("a", 1, &esltest.Counter{Name: "a"})
		esltest.Pass(10 * time.Minute)
		if n := store.Done(); n > 5 {
			t.Errorf("it was done %d times", n)
		}
	})
}
