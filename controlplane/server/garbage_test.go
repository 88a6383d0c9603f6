package server

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestGarbagePercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 430, 8 << 20: 430, 128 << 20: 430, 256 << 20: 230, 1 << 30: 80} {
		if got := garbagePercent(live); got != want {
			t.Errorf("%d MiB in use: %d %%, want %d", live>>20, got, want)
		}
	}
}

// percentNow returns the present setting.
func percentNow() int {
	percent := debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	return percent
}

func TestCollectGarbage(t *testing.T) {
	for _, env := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(env, func(t *testing.T) {
			t.Setenv(env, "100")
			before := percentNow()
			ctx, stop := context.WithCancel(t.Context())
			stop()
			if err := CollectGarbage(ctx); !errors.Is(err, context.Canceled) || percentNow() != before {
				t.Errorf("%v, %d %%, was %d", err, percentNow(), before)
			}
		})
	}
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := percentNow()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- CollectGarbage(ctx) }()
	used := make([]byte, 1<<30)
	for p := percentNow(); (p <= 40 || p >= 80) && len(ended) == 0; p = percentNow() {
		runtime.GC() // with this much live memory it allows less
		runtime.Gosched()
	}
	runtime.KeepAlive(used)
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) || percentNow() != before {
		t.Errorf("%v, %d %%, was %d", err, percentNow(), before)
	}
}
