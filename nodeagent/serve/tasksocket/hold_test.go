package tasksocket

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/types"
)

// sized returns a size for Take.
func sized(n int) func(context.Context) (int, error) {
	return func(context.Context) (int, error) { return n, nil }
}

// TestHoldsInTurn gives units to those that wait longest, never more than there are, and passes over
// one that has given up.
func TestHoldsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHolds()
		var mu sync.Mutex
		var order []int
		holding, most := 0, 0
		count := func(by int) {
			mu.Lock()
			defer mu.Unlock()
			holding += by
			most = max(most, holding)
		}
		done := make(chan struct{})
		for i := range 6 {
			time.Sleep(time.Millisecond)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				defer func() { cancel(); done <- struct{}{} }()
				release, err := h.Take(ctx, "d/x", sized(2))
				if err != nil {
					return
				}
				defer release()
				count(1)
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(time.Minute)
				count(-1)
			}()
			if i == 3 {
				time.Sleep(time.Millisecond)
				cancel()
			}
		}
		for range 6 {
			<-done
		}
		slices.Sort(order[:2])
		slices.Sort(order[2:4])
		if most != 2 || !slices.Equal(order, []int{0, 1, 2, 4, 5}) {
			t.Errorf("%d at once, in the order %v", most, order)
		}
	})
}

// TestHoldsOfSeveral keeps resources apart, follows a capacity that grows, and forgets what no task uses.
func TestHoldsOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, reads := NewHolds(), 0
		take := func(id types.ResourceID, n int) (release func(), err error) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			return h.Take(ctx, id, func(context.Context) (int, error) { reads++; return n, nil })
		}
		first, err := take("d/x", 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := take("d/x", 1); !types.Is(err, types.Unavailable) {
			t.Errorf("two hold one unit: %v", err)
		}
		other, err := take("d/y", 1)
		if err != nil || reads != 2 {
			t.Errorf("another resource: %v, after %d reads", err, reads)
		}
		time.Sleep(sizeFor)
		second, err := take("d/x", 2)
		if err != nil || reads != 3 {
			t.Errorf("a resource that has grown: %v, after %d reads", err, reads)
		}
		first()
		first()
		second()
		other()
		time.Sleep(sizeFor)
		if release, err := take("d/z", 1); err != nil || len(h.lines) != 1 || h.lines["d/z"].held != 1 {
			t.Errorf("%d resources are remembered: %v", len(h.lines), err)
		} else {
			release()
		}
		fails := types.Errorf(types.NotFound, "none")
		if _, err := h.Take(t.Context(), "d/none", func(context.Context) (int, error) { return 0, fails }); !types.Is(err, types.NotFound) || len(h.lines) != 1 {
			t.Errorf("what does not exist: %v", err)
		}
	})
}
