package tasksocket_test

import (
	"net"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// takes takes a unit of turn in the background.
func (b *bench) takes(limit time.Duration) <-chan func() {
	got := make(chan func(), 1)
	go func() {
		release, err := b.client.Hold(b.t.Context(), "turn", limit)
		if err != nil {
			b.t.Error(err)
		}
		got <- release
	}()
	return got
}

// TestHold gives a unit to one task after the other: when the first returns it, when its connection
// breaks, and when its limit has passed.
func TestHold(t *testing.T) {
	b := newBench(t)
	if _, err := b.client.Hold(t.Context(), "turn", 0); !types.Is(err, types.NotFound) {
		t.Errorf("what does not exist: %v", err)
	}
	if _, err := b.client.Set(t.Context(), tasksocket.Set{Name: "turn", Capacity: "1"}); err != nil {
		t.Fatal(err)
	}
	first := <-b.takes(time.Minute)
	second := b.takes(50 * time.Millisecond)
	select {
	case <-second:
		t.Fatal("two hold one unit")
	case <-time.After(20 * time.Millisecond):
	}
	first()
	release := <-second
	third := <-b.takes(time.Minute) // the second has not returned it, and its limit passes
	release()
	third()
	task, err := net.Dial("unix", b.path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := task.Write([]byte("GET /v1/hold?name=turn HTTP/1.1\r\nHost: escher\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := task.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	fourth := b.takes(time.Minute)
	task.Close() // it dies
	(<-fourth)()
}

// TestHoldOfEveryNode holds a resource that is on every node, and one that is closed not at all.
func TestHoldOfEveryNode(t *testing.T) {
	b := newBench(t)
	b.put(controlplane.ResourceKey("d", "turn", types.EveryNode), &types.Resource{Capacity: 1000})
	(<-b.takes(0))()
	b.put(controlplane.ResourceKey("d", "shut", "n1"), &types.Resource{Capacity: 0})
	b.put(controlplane.ResourceKey("d", "shut", types.EveryNode), &types.Resource{Capacity: 1000})
	if _, err := b.client.Hold(t.Context(), "shut", 0); !types.Is(err, types.Precondition) {
		t.Errorf("a closed one: %v", err)
	}
}
