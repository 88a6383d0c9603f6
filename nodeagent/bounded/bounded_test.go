package bounded_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/nodeagent/bounded"
)

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got, ok := bounded.Do(ctx, func() int { return 7 }); got != 7 || !ok {
			t.Errorf("%d, %t", got, ok)
		}
		hangs := make(chan struct{})
		began := time.Now()
		if got, ok := bounded.Do(ctx, func() int { <-hangs; return 7 }); got != 0 || ok || time.Since(began) != time.Second {
			t.Errorf("%d, %t after %s", got, ok, time.Since(began))
		}
		close(hangs)
	})
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		began := time.Now()
		if bounded.Wait(done, time.Minute) || time.Since(began) != time.Minute {
			t.Errorf("done after %s", time.Since(began))
		}
		close(done)
		if !bounded.Wait(done, time.Minute) {
			t.Error("not done")
		}
	})
}
