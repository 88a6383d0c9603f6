package explain

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/types"
)

// TestEndingOfKin: no remedy ends a task or reservation of the same job, nor gives up a reservation
// by a policy of another job.
func TestEndingOfKin(t *testing.T) {
	v := cluster.New()
	for i, x := range []struct {
		key   string
		value types.Message
	}{
		{controlplane.TaskKey("d", "a"), &types.Task{Job: "j"}},
		{controlplane.TaskKey("d", "b"), &types.Task{Job: "j"}},
		{controlplane.TaskKey("d", "c"), &types.Task{Job: "k"}},
		{controlplane.ReservationKey("d", "j.gang"), &types.Reservation{Job: "j"}},
		{controlplane.ReservationKey("d", "hand"), &types.Reservation{}},
	} {
		rev := int64(i + 1)
		if _, _, err := v.Apply(controlplane.Event{KV: controlplane.KV{Key: x.key, Value: types.Encode(1, x.value), CreateRevision: rev, ModRevision: rev}}); err != nil {
			t.Fatal(err)
		}
	}
	task := func(id string) why.Holder { return why.Holder{Kind: why.KindTask, Namespace: "d", ID: id} }
	reserved := func(id string) why.Holder { return why.Holder{Kind: why.KindReservation, Namespace: "d", ID: id} }
	for _, x := range []struct {
		of   string
		by   why.Holder
		want string
	}{
		{"a", task("b"), ""}, {"a", reserved("j.gang"), ""}, {"a", task("c"), "stop c"}, {"a", reserved("hand"), "delete reservation hand"},
		{"c", task("a"), "stop a"}, {"c", reserved("j.gang"), "stop j"},
	} {
		e := newExplainer(v, time.Unix(0, 0))
		if _, err := e.task(cluster.ID{Namespace: "d", ID: x.of}); err != nil {
			t.Fatal(err)
		}
		if got, ok := e.ending("d", x.by); ok != (x.want != "") || ok && got.String() != x.want {
			t.Errorf("%s waits for %s: %q, want %q", x.of, x.by.ID, got, x.want)
		}
		x.by.Quantity = 1
		got, awaits := e.remedy("d", []why.Holder{x.by}, 1)
		if acts := len(got.Actions()) > 0; x.by.Kind == why.KindTask && acts != (x.want != "") {
			t.Errorf("%s waits for %s: %q", x.of, x.by.ID, got)
		}
		if want := (why.Object{Kind: x.by.Kind, Namespace: "d", ID: x.by.ID}); len(awaits) != 1 || awaits[0] != want {
			t.Errorf("%s awaits %v, want %v", x.of, awaits, want)
		}
	}
}
