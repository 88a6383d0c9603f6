package parts

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/cmd/escher/internal/ops"
	"github.com/escher-sched/escher/types"
)

func TestStackStopsInReverse(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := NewStack(ctx, zap.NewNop(), new(ops.Health))
	var order []string
	for _, name := range []string{"first", "second", "third"} {
		s.Start(name, func(ctx context.Context) error {
			<-ctx.Done()
			order = append(order, name) // one at a time, or the race detector reports it
			return ctx.Err()
		})
	}
	cancel() // the end of the caller's context stops nothing by itself
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
	s := NewStack(t.Context(), zap.NewNop(), new(ops.Health))
	broken := errors.New("broken")
	s.StartVital("broken", func(context.Context) error { return broken })
	if err := s.Await(t.Context(), nil); !errors.Is(err, broken) {
		t.Errorf("await: %v", err)
	}
	s.StartVital("quits", func(context.Context) error { return nil })
	if err := s.Await(t.Context(), nil); err == nil {
		t.Error("a vital component that ends by itself is no failure")
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

// TestStackStartsAgain makes a component panic while another one runs: the other one runs on, and
// the health and metrics of the process show the problem.
func TestStackStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		health := new(ops.Health)
		s := NewStack(t.Context(), zap.NewNop(), health)
		health.Part("other").Run(true)
		runs := 0
		s.Start("other", func(ctx context.Context) error {
			runs++
			<-ctx.Done()
			return ctx.Err()
		})
		var well atomic.Bool
		s.Start("shaky", func(ctx context.Context) error {
			if !well.Load() {
				panic("not today")
			}
			<-ctx.Done()
			return ctx.Err()
		})
		synctest.Wait()
		if err := health.Ready(); err == nil || !strings.Contains(err.Error(), "shaky: it ended at 2000-01-01T00:00:00Z, after 0 restarts") || !strings.Contains(err.Error(), "not today") {
			t.Errorf("ready: %v", err)
		}
		const metrics = `
			# HELP escher_component_running 1 while a component of the process runs, 0 while it waits for a restart.
			# TYPE escher_component_running gauge
			escher_component_running{component="other"} 1
			escher_component_running{component="shaky"} 0
		`
		if err := testutil.CollectAndCompare(s.Metrics, strings.NewReader(metrics), "escher_component_running"); err != nil {
			t.Error(err)
		}
		well.Store(true)
		time.Sleep(time.Second)
		if err := health.Ready(); err != nil || runs != 1 || len(s.Failed) > 0 {
			t.Errorf("ready: %v, %d runs", err, runs)
		}
		if w := health.Warnings(); len(w) != 1 || !strings.HasPrefix(w[0], "shaky: it runs since ") {
			t.Errorf("warnings: %q", w)
		}
		if err := s.Unwind(); err != nil {
			t.Error(err)
		}
	})
}

// TestStackEndsByItsConfiguration starts a component with a mistake in its configuration.
func TestStackEndsByItsConfiguration(t *testing.T) {
	s := NewStack(t.Context(), zap.NewNop(), new(ops.Health))
	typo := types.Errorf(types.Invalid, "ttl: 0s is too short")
	s.Start("mistaken", func(context.Context) error { return typo })
	if err := s.Await(t.Context(), nil); !errors.Is(err, typo) {
		t.Errorf("await: %v", err)
	}
	if err := s.Unwind(); err != nil {
		t.Error(err)
	}
}
