package cluster_test

import (
	"fmt"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// keys is a view to apply changes to.
type keys struct {
	*cluster.View
	t        *testing.T
	revision int64
}

func newKeys(t *testing.T) *keys { return &keys{View: cluster.New(), t: t} }

// put applies a value, or a delete.
func (k *keys) put(key string, m types.Message) {
	k.t.Helper()
	k.revision++
	e := controlplane.Event{Delete: m == nil, KV: controlplane.KV{Key: key, ModRevision: k.revision}}
	if m != nil {
		e.Value = types.Encode(1, m)
	}
	if _, _, err := k.Apply(e); err != nil {
		k.t.Fatal(err)
	}
	k.Reached(k.revision)
}

func TestPortCapacity(t *testing.T) {
	k := newKeys(t)
	n := func() *cluster.Node { return k.Nodes["n1"] }
	for _, x := range []struct {
		first, last int
		want        map[types.ResourceID]string
	}{
		{0, 0, map[types.ResourceID]string{"port": "0 false", "port/8080": "1000 true", "port/x": "0 false"}},
		{8000, 8000, map[types.ResourceID]string{"port": "1000 true", "port/7999": "1000 true", "port/8000": "0 true", "port/8001": "1000 true"}},
		{8000, 8099, map[types.ResourceID]string{"port": "100000 true", "port/8099": "0 true", "port/8100": "1000 true"}},
	} {
		k.put(controlplane.NodeKey("n1"), &types.Node{PortFirst: x.first, PortLast: x.last})
		for rid, want := range x.want {
			q, ok := k.Capacity(n(), rid)
			if got := fmt.Sprint(int64(q), ok); got != want {
				t.Errorf("%d-%d: %s has %s, want %s", x.first, x.last, rid, got, want)
			}
		}
	}
}

// TestImageOfAJob checks the image of siblings by their spec, in any order of arrival and removal.
func TestImageOfAJob(t *testing.T) {
	k := newKeys(t)
	task := func(id, job, spec string) {
		k.put(controlplane.TaskKey("d", id), &types.Task{Job: job, Spec: spec})
	}
	ran := func(id, image string) {
		k.put(controlplane.StatusKey("d", id), &types.Status{Phase: types.Running, Image: image})
	}
	image := func(id, want string) {
		t.Helper()
		if got := k.Image(k.Task(cluster.ID{Namespace: "d", ID: id})); got != want {
			t.Errorf("%s is to run %q, want %q", id, got, want)
		}
	}
	ran("a", "x@2") // the status may be listed before the task
	for _, id := range []string{"a", "b", "c", "next"} {
		task(id, "j", "s")
	}
	task("other", "j", "s2")
	task("alone", "", "s")
	image("next", "x@2")
	image("other", "")
	image("alone", "")
	ran("b", "x@1")
	ran("c", "x@1")
	image("a", "x@2")
	image("next", "x@1") // the first by name, not by time
	for _, id := range []string{"b", "c"} {
		k.put(controlplane.StatusKey("d", id), nil)
		k.put(controlplane.TaskKey("d", id), nil)
	}
	image("next", "x@2")
	k.put(controlplane.TaskKey("d", "a"), nil)
	k.put(controlplane.StatusKey("d", "a"), nil)
	image("next", "")
}
