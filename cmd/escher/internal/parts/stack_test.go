package parts

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.uber.org/zap"
)

func TestStackStopsInReverse(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := NewStack(ctx, zap.NewNop())
	var order []string
	for _, name := range []string{"first", "second", "third"} {
		s.Start(name, func(ctx context.Context) error {
			<-ctx.Done()
			order = append(order, name) // one at a time, or the race detector says so
			return ctx.Err()
		})
	}
	cancel() // that the caller is done stops nothing by itself
	if err := s.Await(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("await: %v", err)
	}
	if err := s.Unwind(); err != nil {
		t.Errorf("unwind: %v", err)
	}
	if want := []string{"third", "second", "first"}; !slices.Equal(order, want) {
		t.Errorf("stopped %v", order)
	}
}

func TestStackTellsOfFailure(t *testing.T) {
	s := NewStack(t.Context(), zap.NewNop())
	broken := errors.New("broken")
	s.Start("broken", func(context.Context) error { return broken })
	if err := s.Await(t.Context(), nil); !errors.Is(err, broken) {
		t.Errorf("await: %v", err)
	}
	s.Start("quits", func(context.Context) error { return nil })
	if err := s.Await(t.Context(), nil); err == nil {
		t.Error("a part that ends by itself is no failure")
	}
	late := errors.New("late")
	s.Start("stops badly", func(ctx context.Context) error {
		<-ctx.Done()
		return late
	})
	if err := s.Unwind(); !errors.Is(err, late) || errors.Is(err, broken) {
		t.Errorf("unwind: %v", err)
	}
}
