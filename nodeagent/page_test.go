package nodeagent_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
)

// TestWatchdogKnowsTheSession tests that each renewal gives the watchdog a deadline: later than
// now, and before the session may end.
func TestWatchdogKnowsTheSession(t *testing.T) {
	bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
		var last time.Duration
		for range 5 {
			b.pass(ttl/3 + time.Second)
			page, err := os.ReadFile(filepath.Join(b.cfg.StateDir, "deadline"))
			if err != nil {
				t.Fatal(err)
			}
			now, killAt := b.cfg.BootClock(), time.Duration(binary.BigEndian.Uint64(page[8:]))
			if killAt <= now || killAt > now+ttl || killAt <= last {
				t.Fatalf("at %s it is told %s, and was %s", now, killAt, last)
			}
			last = killAt
		}
	})
}
