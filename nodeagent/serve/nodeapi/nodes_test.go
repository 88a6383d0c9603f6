package nodeapi_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

// TestFind finds the node of an attempt among nodes that have its output, that have none, and that do
// not answer.
func TestFind(t *testing.T) {
	w := newWorld(t)
	if err := os.WriteFile(w.agent.LogPath("x", "t", 2), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	addresses := map[string]string{"n": w.url}
	find := func(attempt int) (string, error) {
		store := stored(t, addresses)
		change := controlplane.NewChange(2)
		change.Put(controlplane.TokenKey("n"), &types.Token{Token: token})
		change.Put(controlplane.NodeKey("lost"), &types.Node{Address: w.url})
		if _, err := store.Commit(t.Context(), change.Txn()); err != nil {
			t.Fatal(err)
		}
		alive, away, err := nodeapi.Names(t.Context(), store)
		if err != nil || len(alive) != len(addresses) || !slices.Equal(away, []string{"lost"}) {
			t.Errorf("alive are %v, away %v, %v", alive, away, err)
		}
		return nodeapi.Dialer{Store: store}.Find(t.Context(), "x", "t", attempt)
	}
	if node, err := find(2); err != nil || node != "n" {
		t.Errorf("attempt 2 is on %q, %v", node, err)
	}
	if _, err := find(1); !types.Is(err, types.Unavailable) || !strings.HasSuffix(err.Error(), "do not answer: lost") {
		t.Errorf("attempt 1: %v", err)
	}
	addresses["closed"] = "http://127.0.0.1:1"
	if _, err := find(1); !types.Is(err, types.Unavailable) || !strings.HasSuffix(err.Error(), "do not answer: closed, lost") {
		t.Errorf("attempt 1: %v", err)
	}
	if node, err := find(2); err != nil || node != "n" {
		t.Errorf("attempt 2 is on %q, %v", node, err)
	}
}
