package cluster

import (
	"fmt"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestMembers adds, removes and compacts members of a job between calls of Members.
func TestMembers(t *testing.T) {
	v, revision := New(), int64(0)
	change := func(id string, there bool) {
		t.Helper()
		revision++
		e := controlplane.Event{Delete: !there, KV: controlplane.KV{
			Key: controlplane.TaskKey("d", id), ModRevision: revision, Value: types.Encode(uint64(revision), &types.Task{Job: "j"}),
		}}
		if _, _, err := v.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	want := func(want string) {
		t.Helper()
		for range 3 {
			var ids []string
			all := v.Members(ID{"d", "j"})
			for _, m := range all {
				ids = append(ids, m.ID.ID)
			}
			clear(all) // the caller owns it
			if got := fmt.Sprint(ids); got != want {
				t.Errorf("members %s, want %s", got, want)
			}
		}
	}
	want("[]")
	change("b", true)
	change("c", true)
	want("[b c]")
	change("a", true)
	want("[a b c]")
	v.Compact(v.Task(ID{"d", "b"}))
	want("[a b c]")
	if v.members[ID{"d", "j"}].sorted != nil {
		t.Error("a task that is compacted is kept in memory")
	}
	change("c", false)
	want("[a b]")
	v.Task(ID{"d", "b"})
	want("[a b]")
	change("a", false)
	change("b", false)
	want("[]")
}
