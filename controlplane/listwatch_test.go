package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// Each sentence of ListWatch's contract has one test, in order.

func errUnavailable() error { return types.Errorf(types.Unavailable, "injected loss") }
func errCompacted() error   { return types.Errorf(types.Compacted, "injected compaction") }

func TestListWatchHandleIsCalledByTheCallersGoroutineOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		calls, inside := 0, false // unguarded: the race detector must find nothing
		done := errors.New("enough")
		err := controlplane.ListWatch(t.Context(), s, controlplane.ListWatchOptions{}, func(controlplane.Update) error {
			if inside {
				t.Error("handle is called while it is running")
			}
			inside = true
			_, err := s.Commit(t.Context(), controlplane.Txn{Ops: []controlplane.Op{{Key: "/a"}}})
			time.Sleep(time.Second) // of the bubble: time for the watch to fail
			inside = false
			if calls++; calls == 5 {
				return done
			}
			return err
		})
		if calls != 5 || !errors.Is(err, done) {
			t.Errorf("%d calls, error %v", calls, err)
		}
	})
}

func TestListWatchFirstUpdateIsAListingPinnedToOneRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var want string
		f := follow(t, controlplane.ListWatchOptions{PageSize: 3}, func(f *follower) {
			for i := range 10 {
				want += fmt.Sprintf(" /%d=old@%d", i, f.put("old", fmt.Sprintf("/%d", i)))
			}
			f.store.failList = func(n int) error {
				if n > 0 {
					f.put("new", "/1", "/8", fmt.Sprintf("/8%d", n))
				}
				return nil
			}
		})
		f.want("11 synced:" + want)
		if n := len(f.store.lists); n != 4 {
			t.Errorf("%d pages, want 4", n)
		}
		for i, opts := range f.store.lists[1:] {
			if opts.Revision != 11 {
				t.Errorf("page %d is of revision %d", i+1, opts.Revision)
			}
		}
		f.want("12: /1=new@12 /8=new@12 /81=new@12")
	})
}

func TestListWatchEachRevisionIsOneUpdateWholeAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, controlplane.ListWatchOptions{})
		f.want("1 synced:")
		f.put("1", "/b", "/a", "/c")
		f.del("/a")
		f.put("2", "outside", "/b")
		f.want("2: /b=1@2 /a=1@2 /c=1@2")
		f.want("3: -/a@3")
		f.want("4: /b=2@4")
	})
}

func TestListWatchSkipLeavesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		skip := func(key string) bool { return strings.HasPrefix(key, "/x") }
		f := follow(t, controlplane.ListWatchOptions{Skip: skip}, func(f *follower) { f.put("0", "/a", "/x") })
		f.want("2 synced: /a=0@2")
		f.put("1", "/x", "/b", "/x2")
		f.del("/x")
		f.want("3: /b=1@3")
		if u := f.next(); describe(u) != "4:" {
			t.Errorf("a revision with skipped keys only is %q, want progress", describe(u))
		}
		f.lose(errCompacted())
		f.want("4 synced:")
	})
}

func TestListWatchUpdatesWithoutEventsTellHowFarItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, controlplane.ListWatchOptions{})
		f.want("1 synced:")
		f.put("1", "outside")
		f.put("1", "outside")
		if u := f.next(); describe(u) != "3:" {
			t.Errorf("update %q, want that of revision 3", describe(u))
		}
	})
}

func TestListWatchRevisionNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, controlplane.ListWatchOptions{})
		f.want("1 synced:")
		f.put("1", "/a")
		f.want("2: /a=1@2")
		for _, stale := range []int64{0, 1, 2} {
			f.store.inject <- controlplane.Batch{Revision: stale}
		}
		f.put("2", "/a")
		if u := f.next(); describe(u) != "3: /a=2@3" {
			t.Errorf("update %q, want none of stale progress", describe(u))
		}
		f.lose(errCompacted())
		f.want("3 synced:")
	})
}

func TestListWatchResumesAfterTheLastEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, controlplane.ListWatchOptions{})
		f.want("1 synced:")
		f.lose(errUnavailable())
		f.put("1", "/a")
		f.want("2: /a=1@2")
		if from := f.store.last().From; from != 2 {
			t.Errorf("without an event it resumed from %d, want after the listing", from)
		}
		f.put("1", "outside")
		if u := f.next(); u.Revision != 3 {
			t.Fatalf("update %q, want progress of 3", describe(u))
		}
		f.lose(errUnavailable())
		f.put("2", "/a")
		f.want("4: /a=2@4")
		if from := f.store.last().From; from != 3 {
			t.Errorf("it resumed from %d, want 3: progress is no event", from)
		}
		if n := len(f.store.lists); n != 1 {
			t.Errorf("%d listings, want no reload", n)
		}
	})
}

func TestListWatchResumesWhenTheChannelClosesWithoutAReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		closing := &closingStore{Store: mem}
		ctx, cancel := context.WithCancel(t.Context())
		got := ""
		err := controlplane.ListWatch(ctx, closing, controlplane.ListWatchOptions{}, func(u controlplane.Update) error {
			got += describe(u) + ";"
			if u.Revision == 2 {
				cancel()
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) || got != "1 synced:;2: /a=@2;" {
			t.Errorf("updates %q, error %v", got, err)
		}
	})
}

// closingStore closes the channel of its first watch at once, and puts a key.
type closingStore struct {
	controlplane.Store
	watches int
}

func (s *closingStore) Watch(ctx context.Context, opts controlplane.WatchOptions) <-chan controlplane.Batch {
	if s.watches++; s.watches > 1 {
		return s.Store.Watch(ctx, opts)
	}
	_, _ = s.Commit(ctx, controlplane.Txn{Ops: []controlplane.Op{{Key: "/a"}}})
	ch := make(chan controlplane.Batch)
	close(ch)
	return ch
}

func TestListWatchReloadsAfterCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, controlplane.ListWatchOptions{PageSize: 2}, func(f *follower) {
			f.put("1", "/gone2", "/kept", "/changed", "/gone1", "/recreated")
			// All this happens while the watch is lost.
			f.store.failWatch = func(n int) error {
				if n != 1 {
					return nil
				}
				f.del("/gone1")
				f.del("/gone2")
				f.del("/recreated")
				f.put("2", "/changed", "/recreated")
				f.put("1", "/new")
				f.compact()
				return errUnavailable()
			}
		})
		f.want("2 synced: /changed=1@2 /gone1=1@2 /gone2=1@2 /kept=1@2 /recreated=1@2")
		f.lose(errUnavailable())
		f.want("7 synced: /changed=2@6 /new=1@7 /recreated=2@6 -/gone1@7 -/gone2@7")
		f.put("3", "/kept")
		f.want("8: /kept=3@8")
	})
}

func TestListWatchReloadsWhenCompactedWhileListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, controlplane.ListWatchOptions{PageSize: 1}, func(f *follower) {
			f.put("1", "/a", "/b")
			f.store.failList = func(n int) error {
				if n == 1 {
					f.put("2", "/b")
					f.compact()
				}
				return nil
			}
		})
		f.want("3 synced: /a=1@2 /b=2@3")
	})
}

func TestListWatchReloadsAStreamThatCannotBeBelieved(t *testing.T) {
	put := func(key string, created, mod int64) controlplane.Event {
		return controlplane.Event{KV: controlplane.KV{Key: key, Value: []byte("bad"), CreateRevision: created, ModRevision: mod}}
	}
	for name, batch := range map[string]controlplane.Batch{
		"stale":                     {Revision: 3, Events: []controlplane.Event{put("/a", 2, 3)}},
		"duplicate":                 {Revision: 4, Events: []controlplane.Event{put("/a", 2, 4)}},
		"older than its batch":      {Revision: 9, Events: []controlplane.Event{put("/a", 2, 8)}},
		"twice a key":               {Revision: 9, Events: []controlplane.Event{put("/a", 2, 9), put("/a", 2, 9)}},
		"foreign":                   {Revision: 9, Events: []controlplane.Event{put("x", 9, 9)}},
		"deletes what is not there": {Revision: 9, Events: []controlplane.Event{{KV: controlplane.KV{Key: "/b", ModRevision: 9}, Delete: true}}},
		"creates what is there":     {Revision: 9, Events: []controlplane.Event{put("/a", 9, 9)}},
		"changes what is not there": {Revision: 9, Events: []controlplane.Event{put("/a", 2, 9), put("/b", 5, 9)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := follow(t, controlplane.ListWatchOptions{}, func(f *follower) { f.put("1", "/a") })
				f.want("2 synced: /a=1@2")
				f.put("2", "/a")
				f.put("3", "/a")
				f.want("3: /a=2@3")
				f.want("4: /a=3@4")
				f.store.inject <- batch
				f.want("4 synced:")
				f.put("4", "/a")
				f.want("5: /a=4@5")
			})
		})
	}
}

func TestListWatchWaitsLongerEachTimeAndForgetsOnProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, controlplane.ListWatchOptions{}, func(f *follower) {
			f.store.failWatch = func(n int) error {
				if n < 20 || n > 20 && n < 23 {
					return errUnavailable()
				}
				return nil
			}
		})
		f.want("1 synced:")
		f.put("1", "/a")
		f.want("2: /a=1@2")
		f.lose(errUnavailable())
		f.put("2", "/a")
		f.want("3: /a=2@3")
		wait := func(n int) time.Duration { return f.store.begun[n+1].Sub(f.store.begun[n]) }
		if first, last := wait(0), wait(19); first > 50*time.Millisecond || last < time.Second || last > 4*time.Second {
			t.Errorf("waits from %s to %s", first, last)
		}
		if again := wait(20); again > 50*time.Millisecond {
			t.Errorf("waits %s after progress, want the shortest again", again)
		}
		if n := len(f.store.lists); n != 1 {
			t.Errorf("%d listings", n)
		}
	})
}

func TestListWatchTriesToListForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, controlplane.ListWatchOptions{}, func(f *follower) {
			f.store.failList = func(n int) error {
				if n < 1000 {
					return errUnavailable()
				}
				return nil
			}
		})
		f.want("1 synced:")
	})
}

func TestListWatchEndsWhenTheStoreWasRestored(t *testing.T) {
	for name, batch := range map[string]controlplane.Batch{
		"its history is gone":           {Err: errCompacted()},
		"nothing is written after that": {Revision: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := follow(t, controlplane.ListWatchOptions{}, func(f *follower) {
					f.put("1", "/a")
					f.store.failList = func(n int) error {
						if n == 1 {
							f.store.Store = memstore.New()
						}
						return nil
					}
				})
				f.want("2 synced: /a=1@2")
				f.store.inject <- batch
				if err := <-f.ended; !types.Is(err, types.Precondition) {
					t.Errorf("error %v, want Precondition", err)
				}
			})
		})
	}
}

func TestListWatchEndsWithAnErrorOfAnotherClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, controlplane.ListWatchOptions{}, func(f *follower) { f.put("1", "/a") })
		f.want("2 synced: /a=1@2")
		f.lose(types.Errorf(types.Invalid, "injected"))
		if err := <-f.ended; !types.Is(err, types.Invalid) {
			t.Errorf("error of the watch %v, want Invalid", err)
		}
		g := follow(t, controlplane.ListWatchOptions{}, func(f *follower) {
			f.store.failList = func(int) error { return types.Errorf(types.Precondition, "injected") }
		})
		if err := <-g.ended; !types.Is(err, types.Precondition) {
			t.Errorf("error of the listing %v, want Precondition", err)
		}
	})
}

func TestListWatchEndsWithTheErrorOfHandle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The loop must not mistake it for an error of the store.
		mine := errUnavailable()
		for _, at := range []int64{1, 2} {
			s := newFaulty(memstore.New())
			err := controlplane.ListWatch(t.Context(), s, controlplane.ListWatchOptions{}, func(u controlplane.Update) error {
				if u.Revision == at {
					return mine
				}
				_, err := s.Commit(t.Context(), controlplane.Txn{Ops: []controlplane.Op{{Key: "/a"}}})
				return err
			})
			if err != mine { // unchanged, not wrapped
				t.Errorf("error %v, want that of handle", err)
			}
			if s.open != 0 {
				t.Errorf("%d watches are open", s.open)
			}
		}
	})
}

func TestListWatchEndsWithItsContextAndNothingRunsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, controlplane.ListWatchOptions{})
		f.want("1 synced:")
		// The watch has an undelivered update.
		f.put("1", "/a")
		f.put("2", "/a")
		synctest.Wait()
		f.cancel()
		if err := <-f.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want that of the context", err)
		}
		if f.store.open != 0 {
			t.Errorf("%d watches are open after the return", f.store.open)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, controlplane.ListWatchOptions{}, func(f *follower) {
			f.store.failList = func(int) error { return errUnavailable() }
		})
		synctest.Wait() // the loop waits for its next try
		f.cancel()
		if err := <-f.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v while it waits, want that of the context", err)
		}
	})
}

// TestListWatchIsHeard checks that Heard reports a live watch while nothing changes.
func TestListWatchIsHeard(t *testing.T) {
	s := memstore.New()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heard := 0
	opts := controlplane.ListWatchOptions{Prefix: controlplane.Root, Heard: func() {
		if heard++; heard == 2 {
			cancel()
		}
	}}
	updates := 0
	err := controlplane.ListWatch(ctx, progressing{s}, opts, func(controlplane.Update) error { updates++; return nil })
	if !errors.Is(err, context.Canceled) || heard != 2 || updates != 1 {
		t.Errorf("heard %d times, with %d updates: %v", heard, updates, err)
	}
}

// progressing is a store whose watches only report progress.
type progressing struct{ controlplane.Store }

func (p progressing) Watch(ctx context.Context, opts controlplane.WatchOptions) <-chan controlplane.Batch {
	out := make(chan controlplane.Batch, 1)
	out <- controlplane.Batch{Revision: opts.From - 1}
	context.AfterFunc(ctx, func() { close(out) })
	return out
}
