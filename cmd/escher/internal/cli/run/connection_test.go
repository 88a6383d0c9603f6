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
		lost, back := "the connection to x is lost: trying again", "the connection to x is back"
		// The command itself says that it does not reach the cluster.
		time.Sleep(time.Minute + 100*time.Millisecond)
		want()
		// A cluster at rest answers when it is asked.
		answers.Store(true)
		time.Sleep(time.Minute)
		want()
		answers.Store(false)
		time.Sleep(7 * time.Second)
		want(lost)
		time.Sleep(time.Minute)
		want(lost)
		answers.Store(true)
		time.Sleep(5 * time.Second)
		want(lost, back)
		answers.Store(false)
		time.Sleep(7 * time.Second)
		want(lost, back, lost)
		// The end of the command is no loss.
		answers.Store(true)
		time.Sleep(5 * time.Second)
		answers.Store(false)
		time.Sleep(time.Second)
		cancel()
		time.Sleep(time.Minute)
		want(lost, back, lost, back)
	})
}
