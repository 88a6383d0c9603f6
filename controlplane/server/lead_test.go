package server

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// TestLeadIsOneAtATime lets two processes lead: the second takes over after the first one's term
// has ended, not before.
func TestLeadIsOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		var leading atomic.Int32
		var terms []string
		begin := func(name string) (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- Lead(ctx, s, "collector", &types.Leader{Holder: name}, func(ctx context.Context, guard []controlplane.Compare) error {
					if leading.Add(1) > 1 {
						t.Error("two lead")
					}
					defer leading.Add(-1)
					terms = append(terms, name)
					if len(guard) != 1 || guard[0].Revision == 0 {
						t.Errorf("guarded by %v", guard)
					}
					<-ctx.Done()
					time.Sleep(leaderTTL) // its work takes that long to end
					return ctx.Err()
				})
			}()
			return func() {
				cancel()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("%s ended with %v", name, err)
				}
			}
		}
		stopA := begin("a")
		synctest.Wait()
		stopB := begin("b")
		time.Sleep(time.Minute)
		stopA()
		time.Sleep(time.Minute)
		stopB()
		if len(terms) < 2 || terms[0] != "a" || terms[1] != "b" {
			t.Errorf("led: %v", terms)
		}
	})
}

// TestLeadEndsWithAnError loses the role first, which is no error.
func TestLeadEndsWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		n := 0
		err := Lead(t.Context(), memstore.New(), "collector", &types.Leader{Holder: "a"}, func(context.Context, []controlplane.Compare) error {
			if n++; n == 1 {
				return types.Errorf(types.Conflict, "another process leads")
			}
			return broken
		})
		if n != 2 || !errors.Is(err, broken) {
			t.Errorf("ran %d times, then %v", n, err)
		}
	})
}

// TestLeadBeginsAgain loses the lease: the function ends, and runs again.
func TestLeadBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		ctx, cancel := context.WithCancel(t.Context())
		var leading atomic.Int32
		var guards []int64
		ended := make(chan error, 1)
		go func() {
			ended <- Lead(ctx, s, "collector", &types.Leader{Holder: "a"}, func(ctx context.Context, guard []controlplane.Compare) error {
				if leading.Add(1) > 1 {
					t.Error("it is run twice at a time")
				}
				defer leading.Add(-1)
				guards = append(guards, guard[0].Revision)
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		synctest.Wait()
		page, err := s.List(t.Context(), controlplane.ListOptions{Key: controlplane.LeaderKey("collector")})
		if err != nil || len(page.KVs) != 1 {
			t.Fatalf("no process leads: %v, %v", page, err)
		}
		if err := s.RevokeLease(t.Context(), page.KVs[0].Lease); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		if len(guards) != 2 || guards[0] == guards[1] {
			t.Errorf("led under the revisions %v, want two", guards)
		}
	})
}
