package nodeagent

import (
	"testing"

	"github.com/escher-sched/escher/controlplane/memstore"
)

// TestClientsAreShared tests that tasks of a namespace share a client, which is dropped with the
// last of them: over time, many namespaces may have tasks here.
func TestClientsAreShared(t *testing.T) {
	var c clients
	store := memstore.New()
	first, release, err := c.of(store, "a")
	if err != nil {
		t.Fatal(err)
	}
	second, releaseSecond, err := c.of(store, "a")
	if err != nil || second != first {
		t.Fatalf("another client, %v", err)
	}
	if _, _, err := c.of(store, "no name"); err == nil {
		t.Error("a namespace of no name has a client")
	}
	release()
	release() // once
	if third, releaseThird, err := c.of(store, "a"); err != nil || third != first {
		t.Errorf("another client while one is in use, %v", err)
	} else {
		releaseThird()
	}
	if len(c.byNS) != 1 {
		t.Errorf("%d clients, want 1", len(c.byNS))
	}
	releaseSecond()
	if len(c.byNS) != 0 {
		t.Errorf("%d clients are left", len(c.byNS))
	}
}
