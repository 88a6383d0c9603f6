package esltest

import (
	"testing"

	"github.com/escher-sched/escher/e2e/hollow"
)

// HowMany returns how many of some tasks run.
func HowMany(t *testing.T, c *hollow.Cluster, ids []string) int {
	t.Helper()
	v, err := c.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	running, n := hollow.Running(v, "d"), 0
	for _, id := range ids {
		if running[id] != "" {
			n++
		}
	}
	return n
}
