package requests_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// TestIf refuses conditions on keys that the state does not show, whether they exist or not, and
// accepts the others.
func TestIf(t *testing.T) {
	b := newBench(t)
	b.put(controlplane.TaskKey("other", "secret"), &types.Task{Name: "secret"})
	set := []requests.Set{{Name: "x", Capacity: "1"}}
	before := b.store.Revision()
	for _, key := range []string{
		controlplane.TaskKey("other", "secret"), controlplane.TaskKey("other", "none"), controlplane.TaskKey("d", "me"),
		controlplane.StatusKey("d", "me"), controlplane.SpecKey("d", "x"), controlplane.ResourceKey("other", "x", "n1"),
		controlplane.BindingKey("n1", "other", "a", 1), controlplane.ReportKey("n1", "other", "a", 1),
		controlplane.PoolKey("other", "x"), controlplane.SchedulerKey("s"), controlplane.AdmissionKey(), controlplane.NamespaceKey("d"),
		"/registry/secrets", "/escher/", "/escher/nodes", "/escher/nodes/n1/x", "",
	} {
		// The answer is the same for any revision.
		for _, revision := range []int64{0, 1, 7} {
			_, err := b.client.Commit(t.Context(), requests.Transaction{If: controlplane.ReadSet{key: revision}, Set: set})
			if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), fmt.Sprintf("if: %q is nothing", key)) {
				t.Errorf("%s at %d: %v", key, revision, err)
			}
		}
	}
	if b.store.Revision() != before {
		t.Error("something was written")
	}
	for _, key := range []string{
		controlplane.ResourceKey("d", "none", "n1"), controlplane.ReservationKey("d", "none"), controlplane.GrantKey("d", "none"),
		controlplane.ProvidedKey("d", "none", "n1"), controlplane.PoolKey("d", "none"), controlplane.AllocatedKey("n1"),
		controlplane.NodeKey("none"), controlplane.AliveKey("none"), controlplane.CordonKey("n1"),
		controlplane.BindingKey("n1", "d", "me", 1), controlplane.ReportKey("n1", "d", "me", 1),
	} {
		if _, err := b.client.Commit(t.Context(), requests.Transaction{If: controlplane.ReadSet{key: 0}, Set: set}); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	state, err := b.client.State(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	for key := range state.Reads {
		if !cluster.Shown("d", key) {
			t.Errorf("the state shows %s, and a transaction must not name it", key)
		}
	}
}
