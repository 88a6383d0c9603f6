package nodeagent

import (
	"testing"

	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
)

// TestShortestSessionIsWatched tests that the watchdog sees a deadline before it comes, with time
// to act, however short the session is.
func TestShortestSessionIsWatched(t *testing.T) {
	shortest := lifetime{ttl: MinTTL}
	if at := shortest.warn(); watchdog.SeenWithin >= shortest.watched() || at <= 0 {
		t.Errorf("a session of %s is over at %s, and its deadline is seen after %s", MinTTL, shortest.watched(), watchdog.SeenWithin)
	}
}
