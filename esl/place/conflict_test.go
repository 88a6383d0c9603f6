package place_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/types"
)

// TestPlacementExcludes: a policy that depends on free capacity excludes one that moves tasks, and
// another program's policy that chooses nodes with capacity excludes one that makes capacity: they
// would wait for ever. A resource that is equal on every node goes with both.
func TestPlacementExcludes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, jobs := esltest.Ordered(t, 2)
		for id, shared := range map[string]esl.Shared{"p": place.Pack{}, "b": place.ElasticBalance{}, "o": place.Objective{By: place.Load}} {
			if err := jobs.Declare(t.Context(), id, shared, ""); err != nil {
				t.Fatal(err)
			}
		}
		steers := []esl.Policy{place.Pack{}, esl.Use{Name: "p", Of: "pack"}, place.Objective{By: place.Load}, esl.Use{Name: "o", Of: "objective"}, place.Colocate{}, place.Balance{}, place.Spread{Over: "node"}, place.Apart{In: "rack"}, place.ElasticBalance{}, esl.Use{Name: "b", Of: "elastic-balance"}}
		refused := func(a, b esl.Policy) {
			t.Helper()
			kind := a.Kind()
			if use, ok := a.(esl.Use); ok {
				kind = use.Of
			}
			other := b.Kind()
			if use, ok := b.(esl.Use); ok {
				other = use.Of
			}
			want := "policies: " + kind + " and " + other + " exclude each other"
			if _, err := jobs.Submit(t.Context(), controlplane.Job{Tasks: esl.Copies(1, hollow.Task(100))}, b, a); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, not %q", err, want)
			}
		}
		for _, p := range steers {
			refused(p, room.Migrate{})
		}
		for _, few := range []esl.Policy{place.Pack{}, esl.Use{Name: "p", Of: "pack"}} {
			for _, many := range []esl.Policy{place.ElasticBalance{}, esl.Use{Name: "b", Of: "elastic-balance"}, place.Balance{}, place.Spread{Over: "node"}} {
				refused(few, many)
			}
		}
		refused(coldest{}, room.Preempt{})
		both := esltest.Submitted(t, jobs, esl.Copies(2, hollow.Task(100, "run", "1s")), place.Apart{}, room.Migrate{}, room.Preempt{})
		esltest.Statuses(t, jobs, controlplane.UntilEnded, both.Tasks...)
	})
}
