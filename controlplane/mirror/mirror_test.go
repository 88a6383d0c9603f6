package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/mirror"
	"github.com/escher-sched/escher/controlplane/storetest"
	"github.com/escher-sched/escher/types"
)

// follow runs a mirror of everything with the prefix, until the test ends.
func follow(t *testing.T, store controlplane.Store, prefix string) *mirror.Store {
	t.Helper()
	s := mirror.New(mirror.Config{Store: store, Root: "/", Prefixes: []string{prefix}, Forks: []controlplane.Kind{controlplane.Nodes}, Now: time.Now, Log: zap.NewNop()})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return s
}

// whole is a mirror with the methods that the conformance suite needs.
type whole struct {
	*mirror.Store
	below *memstore.Store
}

func (w whole) Compact(ctx context.Context, revision int64) error {
	return w.below.Compact(ctx, revision)
}
func (w whole) SetFull(ctx context.Context, full bool) error { return w.below.SetFull(ctx, full) }

// TestConformance runs the suite of stores on a mirror, less the tests of what is compacted: it may still know that.
func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) controlplane.Store {
		store := memstore.New()
		return whole{follow(t, store, "/"), store}
	}, "List", "Commit", "Range", "Limits", "Watch", "Lease", "Full", "Context")
}

// passes is a store that counts the listings of ranges, and may cut off and hold back its watches.
type passes struct {
	*memstore.Store
	mu      sync.Mutex
	listed  int
	delay   time.Duration
	refuses bool
	watched context.CancelFunc
}

func (s *passes) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if opts.Prefix != "" {
		s.listed++
	}
	return s.Store.List(ctx, opts)
}

func (s *passes) Watch(ctx context.Context, opts controlplane.WatchOptions) <-chan controlplane.Batch {
	ctx, cut := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched = cut
	out := make(chan controlplane.Batch, 1)
	if s.refuses {
		out <- controlplane.Batch{Err: types.Errorf(types.Unavailable, "no watch")}
		close(out)
		return out
	}
	go func() {
		defer close(out)
		for b := range s.Store.Watch(ctx, opts) {
			time.Sleep(s.slow())
			select {
			case out <- b:
			case <-ctx.Done():
			}
		}
	}()
	return out
}

func (s *passes) slow() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.delay
}

// down ends the watch, and refuses others while it is set.
func (s *passes) down(is bool) {
	s.cut()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses = is
}

// cut cuts off the watch.
func (s *passes) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched()
}

// asked returns the number of listings of ranges since the last call.
func (s *passes) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.listed
	s.listed = 0
	return n
}

func put(t *testing.T, s controlplane.Store, ops ...controlplane.Op) int64 {
	t.Helper()
	r, err := s.Commit(t.Context(), controlplane.Txn{Ops: ops})
	if err != nil {
		t.Fatal(err)
	}
	return r.Revision
}

// TestSame changes a store at random, and compares listings by a mirror with those of the store: of the newest revision and
// of earlier ones, while the watch is cut off and the history compacted.
func TestSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		store := &passes{Store: memstore.New()}
		s := follow(t, store, "/m/")
		synctest.Wait()
		key := func() string { return fmt.Sprintf("/%s/%02d", []string{"m", "n"}[random.IntN(2)], random.IntN(40)) }
		var pinned []int64
		same := func(opts controlplane.ListOptions) {
			t.Helper()
			want, wantErr := store.Store.List(t.Context(), opts)
			got, err := s.List(t.Context(), opts)
			if types.Is(wantErr, types.Compacted) {
				return // it may still know
			}
			if err != nil || wantErr != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v: %+v, %v, want %+v, %v", opts, got, err, want, wantErr)
			}
			pinned = append(pinned, got.Revision)
			opts.Limit, opts.After = 0, ""
			want, _ = store.Store.List(t.Context(), opts) // it did a moment ago
			if all, at, err := controlplane.ListAll(t.Context(), s, opts); err != nil || at != want.Revision || !reflect.DeepEqual(all, want.KVs) {
				t.Fatalf("%+v: %d keys at %d, %v, want %d at %d", opts, len(all), at, err, len(want.KVs), want.Revision)
			}
		}
		for i := range 3000 {
			switch random.IntN(12) {
			case 0, 1, 2:
				a, b := key(), key()
				if a == b {
					continue
				}
				put(t, store, controlplane.Op{Key: a, Value: []byte(fmt.Sprint(i))}, controlplane.Op{Key: b, Delete: random.IntN(2) == 0})
			case 3:
				time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
			case 4:
				if random.IntN(10) == 0 {
					store.cut()
				}
			case 5:
				if random.IntN(5) == 0 { // changes that the watch misses, some of which are listed below
					same(controlplane.ListOptions{Prefix: "/m/"})
					store.cut()
					for range random.IntN(4) {
						put(t, store, controlplane.Op{Key: key(), Value: []byte(fmt.Sprint(i))})
						same(controlplane.ListOptions{Prefix: "/m/"})
					}
					_ = store.Compact(t.Context(), store.Revision()) // it may be compacted there
				}
			default:
				opts := controlplane.ListOptions{Prefix: []string{"/m/", "/m/1", "/n/", "/x"}[random.IntN(4)], Limit: random.IntN(5), KeysOnly: random.IntN(3) == 0}
				if random.IntN(4) == 0 {
					opts = controlplane.ListOptions{Key: key(), KeysOnly: opts.KeysOnly}
				}
				if random.IntN(2) == 0 && opts.Prefix == "/m/" {
					opts.After = fmt.Sprintf("/m/%02d", random.IntN(40))
				}
				if len(pinned) > 0 && random.IntN(2) == 0 {
					opts.Revision = pinned[max(0, len(pinned)-1-random.IntN(5))]
				}
				same(opts)
			}
		}
	})
}

// TestFromMemory: the store below answers before everything is listed, and while the watch is behind.
func TestFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &passes{Store: memstore.New()}
		at := put(t, store, controlplane.Op{Key: "/m/1", Value: []byte("1")}, controlplane.Op{Key: "/n/1", Value: []byte("1")})
		list := func(s controlplane.Store, opts controlplane.ListOptions, keys, asked int) {
			t.Helper()
			page, err := s.List(t.Context(), opts)
			if n := store.asked(); err != nil || len(page.KVs) != keys || n != asked {
				t.Errorf("%+v: %d keys, %d listings of the store, %v; want %d, %d", opts, len(page.KVs), n, err, keys, asked)
			}
		}
		m := controlplane.ListOptions{Prefix: "/m/"}
		list(mirror.New(mirror.Config{Store: store, Root: "/", Prefixes: []string{"/"}, Now: time.Now, Log: zap.NewNop()}), m, 1, 1)
		s := follow(t, store, "/m/")
		synctest.Wait()
		store.asked()
		list(s, m, 1, 0)
		list(s, controlplane.ListOptions{Prefix: "/"}, 2, 1) // more than it has
		list(s, controlplane.ListOptions{Key: "/m/1"}, 1, 0)
		if v, err := s.Fork(t.Context()); err != nil || v == nil || v.Revision != at {
			t.Errorf("%v, %v", v, err)
		}
		put(t, store, controlplane.Op{Key: "/m/2", Value: []byte("1")})
		list(s, m, 2, 0)
		list(s, controlplane.ListOptions{Prefix: "/m/", Revision: at}, 1, 0)
		time.Sleep(11 * time.Second) // a reader of pages has no longer
		put(t, store, controlplane.Op{Key: "/m/3", Value: []byte("1")})
		list(s, m, 3, 0)
		list(s, controlplane.ListOptions{Prefix: "/m/", Revision: at}, 1, 1)
		store.mu.Lock()
		store.delay = time.Second
		store.mu.Unlock()
		put(t, store, controlplane.Op{Key: "/m/4", Value: []byte("1")})
		began := time.Now()
		list(s, m, 4, 1)
		if v, err := s.Fork(t.Context()); err != nil || v != nil || time.Since(began) != 400*time.Millisecond {
			t.Errorf("%v, %v after %s", v, err, time.Since(began))
		}
		time.Sleep(2 * time.Second)
		list(s, m, 4, 0)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if _, err := s.List(ctx, m); !types.Is(err, types.Unavailable) {
			t.Error(err)
		}
	})
}

// TestReload: a state from before a reload does not answer for revisions that the watch has missed.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &passes{Store: memstore.New()}
		put(t, store, controlplane.Op{Key: "/m/1", Value: []byte("1")})
		s := follow(t, store, "/m/")
		synctest.Wait()
		list := func(revision int64) (controlplane.Page, error) {
			return s.List(t.Context(), controlplane.ListOptions{Prefix: "/m/", Revision: revision})
		}
		before, err := list(0)
		if err != nil || len(before.KVs) != 1 {
			t.Fatal(before, err)
		}
		store.down(true)
		put(t, store, controlplane.Op{Key: "/m/2", Value: []byte("1")})
		missed, err := list(0)
		if err != nil || len(missed.KVs) != 2 {
			t.Fatal(missed, err)
		}
		if err := store.Compact(t.Context(), put(t, store, controlplane.Op{Key: "/m/3", Value: []byte("1")})); err != nil {
			t.Fatal(err)
		}
		store.down(false)
		time.Sleep(5 * time.Second)
		if page, err := list(missed.Revision); !types.Is(err, types.Compacted) {
			t.Errorf("at a revision that it missed: %+v, %v", page, err)
		}
		for revision, n := range map[int64]int{before.Revision: 1, 0: 3} { // the first is compacted, and its reader goes on
			if page, err := list(revision); err != nil || len(page.KVs) != n {
				t.Errorf("at %d: %+v, %v", revision, page, err)
			}
		}
	})
}

// TestMany lists by many readers while keys change.
func TestMany(t *testing.T) {
	store := memstore.New()
	s := follow(t, store, "/m/")
	var readers sync.WaitGroup
	for reader := range 8 {
		readers.Go(func() {
			for i := range 200 {
				own := fmt.Sprintf("/m/%d-%d", reader, i%5)
				at := put(t, store, controlplane.Op{Key: own, Value: []byte(fmt.Sprint(i))})
				page, err := s.List(t.Context(), controlplane.ListOptions{Prefix: own})
				if err != nil || page.Revision < at || len(page.KVs) != 1 || string(page.KVs[0].Value) != fmt.Sprint(i) {
					t.Errorf("it wrote %d at %d and reads %+v, %v", i, at, page, err)
				}
				again, err := s.List(t.Context(), controlplane.ListOptions{Prefix: "/m/", Revision: page.Revision})
				if err != nil || again.Revision != page.Revision {
					t.Error(again.Revision, err)
				}
				for _, kv := range again.KVs {
					if kv.ModRevision > page.Revision {
						t.Errorf("%+v at %d", kv, page.Revision)
					}
				}
			}
		})
	}
	readers.Wait()
}
