package heap_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane/heap"
)

type item struct{ value, at int }

func (x *item) Before(y *item) bool { return x.value < y.value }
func (x *item) Placed(at int)       { x.at = at }

// TestHeap: whatever is pushed, changed and removed, the first is the least, and each element
// knows its place.
func TestHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h heap.Heap[*item]
		var all []*item
		values := rapid.IntRange(0, 20)
		pick := func(t *rapid.T) *item { return all[rapid.IntRange(0, len(all)-1).Draw(t, "which")] }
		drop := func(x *item) {
			if x.at != -1 {
				t.Fatalf("%d was removed, and is at %d", x.value, x.at)
			}
			all = slices.DeleteFunc(all, func(y *item) bool { return y == x })
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				x := &item{value: values.Draw(t, "value"), at: -1}
				all = append(all, x)
				h.Push(x)
			},
			"pop": func(t *rapid.T) {
				if len(all) == 0 {
					return
				}
				drop(h.Pop())
			},
			"fix": func(t *rapid.T) {
				if len(all) == 0 {
					return
				}
				x := pick(t)
				x.value = values.Draw(t, "value")
				h.Fix(x.at)
			},
			"remove": func(t *rapid.T) {
				if len(all) == 0 {
					return
				}
				x := pick(t)
				x.value = values.Draw(t, "value") // It is not compared any more.
				if got := h.Remove(x.at); got != x {
					t.Fatalf("%v was removed, not %v", got, x)
				}
				drop(x)
			},
			"": func(t *rapid.T) {
				if len(h) != len(all) {
					t.Fatalf("%d in the heap, not %d", len(h), len(all))
				}
				for i, x := range h {
					if x.at != i || i > 0 && x.Before(h[(i-1)/2]) {
						t.Fatalf("%d at %d, which is told %d, below %d", x.value, i, x.at, h[(i-1)/2].value)
					}
				}
			},
		})
	})
}
