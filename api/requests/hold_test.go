package requests_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane"
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
	if _, err := b.client.Set(t.Context(), requests.Set{Name: "turn", Capacity: "1"}); err != nil {
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

// TestHoldParameters names what is wrong.
func TestHoldParameters(t *testing.T) {
	b := newBench(t)
	for query, want := range map[string]string{
		"name=a&limit=0s": `limit: "0s"`, "name=a&limit=11m": `limit: "11m"`, "name=a&limit=x": `limit: "x"`,
		"name=-": `name: "-"`, "name=a&nam=b": "nam: is no parameter", "": "name: ",
	} {
		code, text := b.raw("GET", "/v1/hold?"+query, "")
		if code != 400 && code != 422 || !strings.Contains(text, strings.ReplaceAll(want, `"`, `\"`)) {
			t.Errorf("%s: %d: %s", query, code, text)
		}
	}
	if code, text := b.raw("GET", "/v1/hold?name=none", ""); code != 404 || !strings.Contains(text, "node n1 has no such resource") {
		t.Errorf("%d: %s", code, text)
	}
}
