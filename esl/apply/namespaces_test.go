package apply_test

import (
	"testing"

	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/types"
)

const lab = `apiVersion: escher.dev/v1
kind: Namespace
name: lab
budget: {keys: 10}
`

// Settings that another client changes between the decision and its performance stay.
func TestNamespaceChangedSince(t *testing.T) {
	for name, before := range map[string]bool{"new": false, "set": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			set := func(keys int64) {
				t.Helper()
				if err := w.SetNamespace(t.Context(), "lab", func(n *types.Namespace) error {
					n.Budget = &types.Budget{Keys: keys}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			if before {
				set(5)
			}
			d, err := w.decide(lab, apply.Options{})
			if err == nil {
				err = d.CheckSettings(t.Context(), w.Client)
			}
			if err != nil {
				t.Fatal(err)
			}
			set(7)
			if err := d.Perform(t.Context(), w.Client); !types.Is(err, types.Conflict) {
				t.Errorf("got %v, want Conflict", err)
			}
			if is, err := w.GetNamespace(t.Context(), "lab"); err != nil || is.Budget.Keys != 7 {
				t.Errorf("it has %+v, %v; want the 7 keys of the other", is, err)
			}
		})
	}
}

// The digest of a plan does not cover namespaces: after a compaction of the history it must be
// planned again.
func TestPlanOfNamespaceForgotten(t *testing.T) {
	w := newWorld(t)
	w.apply(slot, apply.Options{})
	d, err := w.decide(lab, apply.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.apply(web, apply.Options{})
	w.apply(train, apply.Options{})
	w.forget(w.revision())
	w.blocked(lab, apply.Options{If: d.Condition}, types.Precondition, "is gone", "review the plan")
}
