package node

import (
	"bytes"
	"strings"
	"testing"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestDrainWait follows two nodes being drained: it says what is left when that changes, names an
// empty node, and ends when the drain of the other is cancelled.
func TestDrainWait(t *testing.T) {
	var out, progress bytes.Buffer
	w := drainWait{
		f:       &cmdutil.Factory{Outside: cmdutil.Outside{Out: &out, Err: &progress}},
		left:    map[string]map[string]struct{}{"n1": {}, "n2": {}},
		drained: make(map[string]bool),
	}
	put := func(key string, m types.Message) controlplane.Event {
		return controlplane.Event{KV: controlplane.KV{Key: key, Value: types.Encode(1, m)}}
	}
	gone := func(key string) controlplane.Event {
		return controlplane.Event{KV: controlplane.KV{Key: key}, Delete: true}
	}
	take := func(events ...controlplane.Event) error { return w.take(controlplane.Update{Events: events}) }
	a, b := controlplane.BindingKey("n1", "team", "a", 1), controlplane.BindingKey("n2", "team", "b", 1)
	drain := &types.Cordon{Drain: types.DrainMove}
	for _, events := range [][]controlplane.Event{
		{put(a, &types.Binding{}), put(b, &types.Binding{}), put(controlplane.CordonKey("n1"), drain), put(controlplane.CordonKey("n2"), drain)},
		{put(a, &types.Binding{Stop: &types.Stop{}})},
		{gone(a)},
		{gone(controlplane.CordonKey("n1"))},
	} {
		if err := take(events...); err != nil {
			t.Fatal(err)
		}
	}
	if out.String() != "n1\n" {
		t.Errorf("printed %q", out.String())
	}
	want := "escher: 1 left on n1: team/a; 1 left on n2: team/b\nescher: 1 left on n2: team/b\n"
	if progress.String() != want {
		t.Errorf("said %q, want %q", progress.String(), want)
	}
	err := take(gone(controlplane.CordonKey("n2")))
	if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "n2: the drain was ended elsewhere before 1 task left") {
		t.Errorf("it went on, with %v", err)
	}
}
