package drain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestWaiting follows two nodes being drained: it says what is left, names an empty node, and ends when
// the drain of the other is ended.
func TestWaiting(t *testing.T) {
	w := newWaiting([]string{"n1", "n2"}, "drain", func(c *types.Cordon) bool { return c.Drain != types.DrainNone })
	put := func(key string, m types.Message) controlplane.Event {
		return controlplane.Event{KV: controlplane.KV{Key: key, Value: types.Encode(1, m)}}
	}
	gone := func(key string) controlplane.Event {
		return controlplane.Event{KV: controlplane.KV{Key: key}, Delete: true}
	}
	a, b := controlplane.BindingKey("n1", "team", "a", 1), controlplane.BindingKey("n2", "team", "b", 1)
	drains := &types.Cordon{Drain: types.DrainMove}
	for _, c := range []struct {
		events []controlplane.Event
		want   string
	}{
		{[]controlplane.Event{put(a, &types.Binding{}), put(b, &types.Binding{}), put(controlplane.CordonKey("n1"), drains), put(controlplane.CordonKey("n2"), drains)}, "[] map[n1:[team/a] n2:[team/b]]"},
		{[]controlplane.Event{put(a, &types.Binding{Stop: &types.Stop{}})}, "[] map[n1:[team/a] n2:[team/b]]"},
		{[]controlplane.Event{gone(a)}, "[n1] map[n2:[team/b]]"},
		{[]controlplane.Event{gone(controlplane.CordonKey("n1"))}, "[] map[n2:[team/b]]"},
	} {
		now, err := w.take(controlplane.Update{Events: c.events})
		if got := fmt.Sprint(now.Empty, now.Tasks); err != nil || got != c.want {
			t.Errorf("%s, %v; want %s", got, err, c.want)
		}
	}
	_, err := w.take(controlplane.Update{Events: []controlplane.Event{gone(controlplane.CordonKey("n2"))}})
	if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "n2: the drain was ended elsewhere before 1 task left") {
		t.Errorf("it went on, with %v", err)
	}
}
