package server

import (
	"slices"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestPanicOfOneItem checks that an item that panics is reported and skipped, and everything else
// is collected.
func TestPanicOfOneItem(t *testing.T) {
	x := indexOf([]put{
		aSession("gone"), resource(types.ClusterWide, types.Resource{Capacity: 1, Lifetime: types.OfSession, Owner: "gone"}),
		aTask("a", types.Task{}), ended("a", 250*hour),
	})
	x.apply(controlplane.Event{Delete: true, KV: controlplane.KV{Key: controlplane.SessionKey("ns", "gone"), ModRevision: 9}}, now())
	l := x.at(now(), DefaultPolicy())
	l.metrics = new(Metrics) // a zero Metrics panics in use
	var failed []string
	l.failed = func(key string, _ error) { failed = append(failed, key) }
	steps, more := l.decide()
	if more || !slices.Equal(failed, []string{controlplane.NamespaceKey("ns")}) {
		t.Errorf("it panicked about %v, more %t", failed, more)
	}
	var deleted []string
	for _, s := range steps {
		deleted = append(deleted, s.deletes...)
	}
	for _, key := range []string{controlplane.ResourceKey("ns", "r", types.ClusterWide), controlplane.TaskKey("ns", "a")} {
		if !slices.Contains(deleted, key) {
			t.Errorf("%s is not collected: %v", key, deleted)
		}
	}
}
