package run

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestConnection tells once that the cluster does not answer, and once that it does again. Before
// the first answer it tells nothing.
func TestConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		var lines []string
		var answers atomic.Bool
		c := &connection{place: "x", ask: func(ctx context.Context) error {
			if answers.Load() {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}, say: func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, fmt.Sprintf(format, args...))
		}}
		go c.run(ctx)
		want := func(all ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(lines, all) {
				t.Errorf("%q, want %q", lines, all)
			}
		}
		time.Sleep(time.Minute + 100*time.Millisecond)
		want()
		for range 20 {
			c.heard()
			time.Sleep(2500 * time.Millisecond)
		}
		want()
		c.heard()
		time.Sleep(5 * time.Second)
		lost, back := "the connection to x is lost: trying again", "the connection to x is back"
		want(lost)
		time.Sleep(time.Minute)
		want(lost)
		c.heard()
		c.heard()
		want(lost, back)
		time.Sleep(5 * time.Second)
		want(lost, back, lost)
		// A cluster at rest answers when it is asked.
		answers.Store(true)
		time.Sleep(time.Minute)
		want(lost, back, lost, back)
	})
}
