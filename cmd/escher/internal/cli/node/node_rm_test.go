package node

import (
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// TestWholeNames does not confuse a removed node with one whose name begins so.
func TestWholeNames(t *testing.T) {
	s := memstore.New()
	change := controlplane.NewChange(controlplane.NewBatch())
	for _, name := range []string{"node-10", "node-2", "node-20"} {
		change.Put(controlplane.NodeKey(name), &types.Node{})
	}
	if _, err := s.Commit(t.Context(), change.Txn()); err != nil {
		t.Fatal(err)
	}
	client, err := controlplane.New(s, "default")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := wholeNames(t.Context(), client, []string{"node-1"}); !types.Is(err, types.NotFound) || !strings.Contains(err.Error(), "did you mean node-10") {
		t.Errorf("node-1 is gone: %v, %v", got, err)
	}
	got, err := wholeNames(t.Context(), client, []string{"node-20", "node-2", "node-20"})
	if err != nil || !slices.Equal(got, []string{"node-2", "node-20"}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := wholeNames(t.Context(), client, []string{""}); !types.Is(err, types.NotFound) {
		t.Errorf("no name: %v", err)
	}
}
