package apply_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/types"
)

// placed is a cluster within the test: the real scheduler and policies, on nodes in racks of three.
type placed struct {
	*hollow.Cluster
	*esl.Client
	t *testing.T
}

func placedIn(t *testing.T, nodes int, f func(w *placed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := hollow.Start(t.Context(), hollow.Config{Nodes: hollow.Racks(hollow.Nodes(nodes, 8), 3)})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		client, err := c.Client("default")
		if err != nil {
			t.Fatal(err)
		}
		f(&placed{c, client, t})
		if err := c.Audit(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// decide decides about a file of a job with built-in policies.
func (w *placed) decide(text string) (*apply.Decision, error) {
	w.t.Helper()
	library := make(manifest.Policies)
	for _, p := range builtin.Policies() {
		library[p.Kind()] = manifest.PolicyKind{New: func() any { return reflect.New(reflect.TypeOf(p)).Interface() }, Job: true}
	}
	docs, err := manifest.Parse("f", []byte(text), library)
	if err != nil {
		w.t.Fatal(err)
	}
	view, err := w.View(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	specs := func(digest string) (*types.Spec, error) { return w.Spec(w.t.Context(), digest) }
	d, err := apply.Decide(view, "default", specs, docs, time.Now(), apply.Options{Replace: true})
	if err != nil {
		return nil, err
	}
	return d, d.Expand(w.t.Context(), w.Client)
}

// apply applies a file.
func (w *placed) apply(text string) (*apply.Decision, error) {
	w.t.Helper()
	d, err := w.decide(text)
	if err != nil {
		return d, err
	}
	return d, d.Perform(w.t.Context(), w.Client.Client)
}

// runs waits until a number of tasks run, and returns the node and the version of each, by index.
func (w *placed) runs(n int) (nodes, versions []string) {
	w.t.Helper()
	v, err := w.Await(w.t.Context(), func(v *cluster.View) bool { return len(hollow.Running(v, "default")) == n })
	if err != nil {
		w.t.Fatal(err)
	}
	all := slices.SortedFunc(v.Tasks(), func(a, b *cluster.Task) int { return a.Info.V.Index - b.Info.V.Index })
	for _, task := range all {
		spec, err := w.Spec(w.t.Context(), task.Info.V.Spec)
		if err != nil {
			w.t.Fatal(err)
		}
		nodes, versions = append(nodes, task.Status.V.Node), append(versions, strings.Join(spec.Env, ""))
	}
	return nodes, versions
}

// placedFile is a job of count tasks with policies and an update.
func placedFile(count int, version, policies, update string) string {
	return fmt.Sprintf("%skind: Job\nname: web\ncount: %d\npolicies: %s\nupdate: %s\ntemplate: {requests: {cpu: 500m}, spec: {image: a, env: [V=%s], grace: 1s}}\n",
		header, count, policies, update, version)
}

// TestPoliciesThatLetTasksBeReplacedOneByOne names each built-in policy, and runs an update with each
// that rolls: the successors are where the policy has them.
func TestPoliciesThatLetTasksBeReplacedOneByOne(t *testing.T) {
	with := map[string]string{
		"apart": "{name: apart}", "spread": "{name: spread, with: {over: rack}}", "balance": "{name: balance, with: {nodes: 4}}",
		"elastic-balance": "{name: elastic-balance}", "pack": "{name: pack}", "near": "{name: near, with: {to: data, in: rack}}",
		"prefer": "{name: prefer, with: {of: [{rack: r1}], anywhere: 1s}}", "stay": "{name: stay}",
	}
	on := func(nodes []string) int { return len(slices.Compact(slices.Sorted(slices.Values(nodes)))) }
	holds := map[string]func(nodes []string) bool{
		"apart": func(nodes []string) bool { return on(nodes) == 4 },
		"pack":  func(nodes []string) bool { return on(nodes) == 1 },
		"near": func(nodes []string) bool {
			return !slices.ContainsFunc(nodes, func(n string) bool { return n > "n02" })
		},
	}
	for _, p := range builtin.Policies() {
		kind := p.Kind()
		if is, want := esl.Describe(p).OneByOne, with[kind] != ""; is != want {
			t.Errorf("%s is replaced one by one: %t", kind, is)
		}
		if with[kind] == "" {
			continue
		}
		for _, update := range []string{"{healthy: 1s}", "{order: start-first, healthy: 1s, atOnce: 2}"} {
			t.Run(kind+update, func(t *testing.T) {
				placedIn(t, 6, func(w *placed) {
					if _, err := w.SetResource(t.Context(), "data", types.Inf, controlplane.OnNode("n01"), controlplane.SetOptions{Declare: true}); err != nil {
						t.Fatal(err)
					}
					file := func(version string) string { return placedFile(4, version, "["+with[kind]+"]", update) }
					if _, err := w.apply(file("1")); err != nil {
						t.Fatal(err)
					}
					w.runs(4)
					d, err := w.apply(file("2"))
					if err != nil || d.Changes[0].Action != apply.Update || len(d.Changes[0].InPlace.Replaces) != 4 {
						t.Fatalf("it is to %+v, %v", d.Changes, err)
					}
					nodes, versions := w.runs(4)
					if !slices.Equal(versions, []string{"V=2", "V=2", "V=2", "V=2"}) || holds[kind] != nil && !holds[kind](nodes) {
						t.Errorf("there are %q on %q", versions, nodes)
					}
					if d, err := w.apply(file("2")); err != nil || d.Changes[0].Action != apply.Unchanged {
						t.Errorf("a further apply is to %s: %q, %v", d.Changes[0].Action, d.Changes[0].Differences, err)
					}
				})
			})
		}
	}
}

// A gang, and a job whose policies change, are replaced as a whole.
func TestPoliciesThatReplaceAJobAsAWhole(t *testing.T) {
	placedIn(t, 4, func(w *placed) {
		if _, err := w.apply(placedFile(2, "1", "[{name: gang}, {name: apart}]", "{atOnce: 1}")); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "update.atOnce: 1: ") {
			t.Errorf("a gang: %v", err)
		}
		if _, err := w.apply(placedFile(2, "1", "[{name: gang}, {name: apart}]", "{healthy: 1s}")); err != nil {
			t.Fatal(err)
		}
		w.runs(2)
		for _, policies := range []string{"[{name: gang}, {name: apart}]", "[{name: apart}]", "[{name: apart, with: {perNode: 2}}]"} {
			d, err := w.apply(placedFile(2, "2", policies, "{healthy: 1s}"))
			if err != nil || d.Changes[0].Action != apply.Replace {
				t.Fatalf("with %s it is to %s, %v", policies, d.Changes[0].Action, err)
			}
			w.runs(2)
		}
	})
}

// A job with policies grows and shrinks by the highest index; no other task is touched.
func TestCountOfAJobWithPolicies(t *testing.T) {
	placedIn(t, 4, func(w *placed) {
		file := func(n int) string { return placedFile(n, "1", "[{name: apart}]", "{healthy: 1s}") }
		if _, err := w.apply(file(2)); err != nil {
			t.Fatal(err)
		}
		before, _ := w.runs(2)
		d, err := w.apply(file(3))
		if err != nil || d.Changes[0].Action != apply.Update || d.Changes[0].InPlace.Adds != "2" {
			t.Fatalf("it is to %+v, %v", d.Changes, err)
		}
		if after, _ := w.runs(3); !slices.Equal(after[:2], before) {
			t.Errorf("those on %q are on %q", before, after)
		}
		for _, n := range []int{3, 2, 2} {
			if _, err := w.apply(file(n)); err != nil {
				t.Fatal(err)
			}
			if after, _ := w.runs(n); !slices.Equal(after[:2], before) {
				t.Errorf("those on %q are on %q", before, after)
			}
		}
		if d, err := w.apply(file(2)); err != nil || d.Changes[0].Action != apply.Unchanged {
			t.Errorf("then it is to %s, %v", d.Changes[0].Action, err)
		}
	})
}

// With as many tasks as nodes, start-first would wait until its timeout.
func TestStartFirstWithoutANodeForTheSuccessor(t *testing.T) {
	placedIn(t, 3, func(w *placed) {
		for count, update := range map[int]string{3: "{order: start-first, healthy: 1s}", 2: "{order: start-first, healthy: 1s, atOnce: 2}"} {
			file := func(version string) string { return placedFile(count, version, "[{name: apart}]", update) }
			if _, err := w.apply(file("1")); err != nil {
				t.Fatal(err)
			}
			w.runs(count)
			_, err := w.apply(file(fmt.Sprint("new", count)))
			if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "with apart the nodes that take tasks hold 3 at most: choose stop-first, or add nodes") {
				t.Errorf("%d tasks: %v", count, err)
			}
			stopFirst := strings.Replace(file("2"), "order: start-first", "order: stop-first", 1)
			if _, err := w.apply(stopFirst); err != nil {
				t.Error(err)
			}
			w.runs(count)
			if _, err := w.apply(strings.Replace(file("2"), "name: apart", "name: apart, with: {perNode: 2}", 1)); err != nil {
				t.Error(err)
			}
			w.runs(count)
		}
	})
}
