package apply_test

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/types"
)

// AcrossNamespaces lets jobs of other namespaces take part.
func (lanes) AcrossNamespaces() {}

// declared declares policy fast in namespace org, and lets the jobs of the world take part, or has them.
func (w *world) declared(required bool) {
	w.t.Helper()
	c, err := controlplane.New(w.store, "org")
	if err != nil {
		w.t.Fatal(err)
	}
	org := &esl.Client{Client: c, Kinds: kinds()}
	if err := org.Declare(w.t.Context(), "fast", lanes{kind: "lane"}, ""); err != nil {
		w.t.Fatal(err)
	}
	w.joins(types.NamespacePolicy{Name: "org:fast", Required: required})
}

func (w *world) joins(policies ...types.NamespacePolicy) {
	w.t.Helper()
	if err := w.SetNamespace(w.t.Context(), "team", func(n *types.Namespace) error { n.Policies = policies; return nil }); err != nil {
		w.t.Fatal(err)
	}
}

// TestRequiredPolicyIsNoDifference applies files that say nothing of a policy in which each job takes part: it
// is added, and is no difference later, also when it is not required any more.
func TestRequiredPolicyIsNoDifference(t *testing.T) {
	for name, file := range map[string]string{"no policy": train, "another policy": gang} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.declared(true)
			d := w.apply(file, apply.Options{})
			want(t, d, apply.Launch)
			id := d.Changes[0].ID
			p, _, err := w.Policies(t.Context(), id)
			if err != nil || !strings.Contains(p.Policies[len(p.Policies)-1].With, `"name":"org:fast"`) {
				t.Fatalf("%+v, %v", p, err)
			}
			task, err := w.Status(t.Context(), w.tasks(id)[0])
			if err != nil || task.Task.Requests.Get("org..fast.lane") == 0 {
				t.Errorf("%+v, %v", task.Task.Requests, err)
			}
			want(t, w.apply(file, apply.Options{}), apply.Unchanged)
			w.blocked(strings.Replace(file, "image: a", "image: b", 1), apply.Options{}, types.Precondition, "(spec.image: a → b)")
			if name == "no policy" {
				for _, with := range []string{`name: "org:fast"`, `name: "org:fast", required: true`} {
					want(t, w.apply(file+"policies: [{name: use, with: {"+with+"}}]\n", apply.Options{}), apply.Unchanged)
				}
			}
			w.joins()
			want(t, w.apply(file, apply.Options{}), apply.Unchanged)
		})
	}
}

// TestRequiredPolicyOfATask refuses a task alone, which has no policies.
func TestRequiredPolicyOfATask(t *testing.T) {
	w := newWorld(t)
	w.declared(true)
	w.blocked(header+"kind: Task\nname: alone\nspec: {image: a}\n", apply.Options{}, types.Invalid, "jobs of namespace team take part in org:fast", "write it as kind Job")
	w.joins(types.NamespacePolicy{Name: "org:fast"})
	want(t, w.apply(header+"kind: Task\nname: alone\nspec: {image: a}\n", apply.Options{}), apply.Launch)
}
