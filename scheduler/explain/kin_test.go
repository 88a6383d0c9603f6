package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
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
	task := func(id string) Holder { return Holder{Kind: KindTask, Namespace: "d", ID: id} }
	reserved := func(id string) Holder { return Holder{Kind: KindReservation, Namespace: "d", ID: id} }
	for _, x := range []struct {
		of   string
		by   Holder
		want string
	}{
		{"a", task("b"), ""}, {"a", reserved("j.gang"), ""}, {"a", task("c"), "escher stop c"}, {"a", reserved("hand"), "escher unreserve hand"},
		{"c", task("a"), "escher stop a"}, {"c", reserved("j.gang"), "escher stop j"},
	} {
		e := newExplainer(v, time.Unix(0, 0))
		if _, err := e.task(cluster.ID{Namespace: "d", ID: x.of}); err != nil {
			t.Fatal(err)
		}
		if got := e.ending("d", x.by); strings.TrimSuffix(got, " -n d") != x.want {
			t.Errorf("%s waits for %s: %q, want %q", x.of, x.by.ID, got, x.want)
		}
		x.by.amount = 1
		if got := e.remedy("d", []Holder{x.by}, 1); x.by.Kind == KindTask && strings.Contains(got, "To end") != (x.want != "") {
			t.Errorf("%s waits for %s: %q", x.of, x.by.ID, got)
		}
	}
}
