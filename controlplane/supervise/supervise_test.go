package supervise_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

func TestScheduleGrowsAndBeginsAgain(t *testing.T) {
	s := supervise.NewSchedule()
	wants := []time.Duration{250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000}
	for i, want := range wants {
		want *= time.Millisecond
		if got := s.Next(time.Second); got < want/2 || got > want*3/2 {
			t.Errorf("pause %d is %s, want about %s", i, got, want)
		}
	}
	if got := s.Next(time.Minute); got > 375*time.Millisecond {
		t.Errorf("after a good run the pause is %s", got)
	}
}

// TestPause expects a pause to last its time, or until its context is done.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := supervise.Pause(t.Context(), time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began = time.Now()
		if err := supervise.Pause(ctx, time.Hour); err != context.DeadlineExceeded || time.Since(began) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// TestComponentIsRestarted counts the runs of a component that ends at once, and checks its
// reported state.
func TestComponentIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var count atomic.Int32
		c := &supervise.Component{Name: "broken", Run: func(ctx context.Context) error {
			runs := count.Add(1)
			switch runs {
			case 1:
				panic("unexpected")
			case 2:
				return nil
			case 40:
				<-ctx.Done()
				return ctx.Err()
			}
			return types.Errorf(types.Invalid, "value %d", runs)
		}}
		ended := make(chan error, 1)
		go func() { ended <- c.Keep(ctx) }()
		synctest.Wait()
		if s := c.State(); s.Running || s.Restarts != 0 || !strings.Contains(s.Err.Error(), "supervise_test.go") {
			t.Errorf("after a panic: %+v", s)
		}
		err := c.Ready()
		if !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "it panicked: unexpected") || strings.Contains(err.Error(), "\n") {
			t.Errorf("ready: %v", err)
		}
		time.Sleep(10 * time.Minute)
		if runs := count.Load(); runs < 20 || runs > 38 {
			t.Errorf("%d runs in ten minutes", runs)
		}
		time.Sleep(20 * time.Minute)
		if s, runs := c.State(), count.Load(); !s.Running || runs != 40 || s.Restarts != 39 || c.Ready() != nil {
			t.Errorf("%d runs, %+v", runs, s)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it returns %v", err)
		}
	})
}

func TestComponentWarnsForSomeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		runs := 0
		c := &supervise.Component{Name: "once", Run: func(ctx context.Context) error {
			if runs++; runs == 1 {
				return types.Errorf(types.Precondition, "no room")
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		go func() { _ = c.Keep(ctx) }()
		time.Sleep(time.Second)
		if w := c.Warning(); c.Ready() != nil || !strings.Contains(w, "after 1 restart; it ended with: no room") {
			t.Errorf("it warns %q", w)
		}
		time.Sleep(10 * time.Minute)
		if w := c.Warning(); w != "" {
			t.Errorf("much later it warns %q", w)
		}
		cancel()
	})
}

// TestComponentEnds checks which errors end a component for good.
func TestComponentEnds(t *testing.T) {
	for name, x := range map[string]struct {
		err   error
		lasts time.Duration
		runs  int
	}{
		"a mistake in its configuration": {types.Errorf(types.Invalid, "ttl: 0s is too short"), time.Second, 1},
		"the disk":                       {supervise.Fatal(types.Errorf(types.Precondition, "no space")), time.Hour, 1},
		"the error that ends it":         {types.Errorf(types.Conflict, "another one leads"), time.Hour, 1},
		"invalid much later":             {types.Errorf(types.Invalid, "too large"), time.Hour, 3},
		"any other":                      {types.Errorf(types.Internal, "unforeseen"), 0, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			runs := 0
			c := &supervise.Component{
				Name: name, Ends: func(err error) bool { return types.Is(err, types.Conflict) },
				Run: func(ctx context.Context) error {
					if runs++; runs == 3 {
						cancel()
						return ctx.Err()
					}
					time.Sleep(x.lasts)
					return x.err
				},
			}
			err := c.Keep(ctx)
			if runs != x.runs || x.runs == 1 && !errors.Is(err, x.err) {
				t.Errorf("%s: %d runs, %v", name, runs, err)
			}
			if x.runs == 1 && c.State().Running {
				t.Errorf("%s: it runs", name)
			}
		})
	}
	if supervise.Fatal(nil) != nil || supervise.IsFatal(types.Errorf(types.Internal, "x")) {
		t.Error("no error is fatal")
	}
}

func TestGroupContainsPanics(t *testing.T) {
	g, ctx := supervise.WithContext(t.Context())
	g.Go(func() error { panic("in a group") })
	g.Go(func() error {
		<-ctx.Done()
		return ctx.Err()
	})
	if err := g.Wait(); !types.Is(err, types.Internal) || !strings.Contains(err.Error(), "in a group") {
		t.Errorf("got %v", err)
	}
}
