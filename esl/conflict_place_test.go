package esl_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// TestPlacementExcludes: what goes by where there is room does not go with what moves tasks,
// nor does somebody else's that chooses nodes with room alone with what makes room: they would
// wait for ever. What is the same on every node goes with both.
func TestPlacementExcludes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, jobs := ordered(t, 2)
		for id, shared := range map[string]esl.Shared{"p": esl.Pack{}, "b": esl.ElasticBalance{}, "o": esl.Objective{By: esl.Load}} {
			if err := jobs.Declare(t.Context(), id, shared, ""); err != nil {
				t.Fatal(err)
			}
		}
		steers := []esl.Policy{esl.Pack{}, esl.Packed{In: "p"}, esl.Objective{By: esl.Load}, esl.Placed{By: "o"}, esl.Colocate{}, esl.Balance{}, esl.Spread{Over: "node"}, esl.Apart{In: "rack"}, esl.ElasticBalance{}, esl.Balanced{In: "b"}}
		refused := func(a, b esl.Policy) {
			t.Helper()
			want := "policies: " + a.Kind() + " and " + b.Kind() + " exclude each other"
			if _, err := jobs.Submit(t.Context(), esl.Job{Tasks: esl.Copies(1, hollow.Task(100))}, b, a); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, not %q", err, want)
			}
		}
		for _, p := range steers {
			refused(p, esl.Migrate{})
		}
		refused(coldest{}, esl.Preempt{})
		both := submitted(t, jobs, esl.Copies(2, hollow.Task(100, "run", "1s")), esl.Apart{}, esl.Migrate{}, esl.Preempt{})
		statuses(t, jobs, controlplane.UntilEnded, both.Tasks...)
	})
}
