package quiet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/e2e/viewtest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/quiet"
	"github.com/escher-sched/escher/types"
)

// stateOf returns the state of a policy on two nodes at second 100,000, with pools of it, with kinds that are
// open on both, and with a waiting task of each of some kinds.
func stateOf(t *testing.T, pools map[string]types.Quantity, open []string, waiting ...string) *esl.State {
	t.Helper()
	b := viewtest.NewBench(t, 2)
	shared, errShared := esl.Stored(quiet.Quiet{})
	use, errUse := esl.Stored(esl.Use{Name: "calm", Of: "quiet"})
	if errShared != nil || errUse != nil {
		t.Fatal(errShared, errUse)
	}
	b.Put(controlplane.PoliciesKey("d", "calm"), &types.Policies{Policies: []types.Policy{shared}})
	for name, amount := range pools {
		b.Put(controlplane.ResourceKey("d", "calm.quiet."+name, types.ClusterWide), &types.Resource{Capacity: amount})
	}
	for _, k := range open {
		for name, n := range b.View.Nodes {
			b.Put(controlplane.ResourceKey("d", "calm.quiet."+k, name), &types.Resource{Capacity: types.Inf, NodeSession: n.Session()})
		}
	}
	for _, k := range waiting {
		one := hollow.Task(1000).Task
		one.Job, one.Submitted, one.Name = k, 1, k
		one.Requests = one.Requests.Plus(types.NewRequests(map[string]types.Quantity{"calm.quiet." + k: esl.One}))
		b.Put(controlplane.TaskKey("d", k+"-0"), &one)
		b.Put(controlplane.JobKey("d", k), &types.Job{Name: k, Tasks: 1})
		b.Put(controlplane.PoliciesKey("d", k), &types.Policies{Job: k, Policies: []types.Policy{use}})
	}
	b.View.Reached(b.Revision)
	return &esl.State{
		View: b.View, Now: time.Unix(100_000, 0), Namespace: "d", ID: "calm", Label: "quiet", Memo: new(any),
		Kinds: esl.Kinds{}.With(func() esl.Policy { return quiet.Quiet{} }, func() esl.Policy { return esl.Use{} }),
	}
}

// changes returns what a plan sets, by the name without that of the policy; on nodes with a + before it.
func changes(plan esl.Plan) map[string]types.Quantity {
	out := make(map[string]types.Quantity)
	for _, x := range plan.Set {
		name := strings.TrimPrefix(x.Name, "calm.quiet.")
		if !x.Where.Cluster {
			name = "+" + name
		}
		out[name] = x.Capacity
	}
	return out
}

// wantChanges fails the test if a plan sets other things than these.
func wantChanges(t *testing.T, when string, plan esl.Plan, want map[string]types.Quantity) {
	t.Helper()
	if got := changes(plan); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: the plan sets %v, want %v", when, got, want)
	}
}

// at is a second as an amount.
func at(second int) types.Quantity { return types.Quantity(second) * esl.One }

// TestFades: half an hour after the last time each part loses a sample, not earlier, and one without any is
// dropped. The first time only notes when that was.
func TestFades(t *testing.T) {
	parts := func(last int) map[string]types.Quantity {
		return map[string]types.Quantity{"db.loud": 50_012, "db.idle": 1, "web.loud": 7_001, "faded": at(last), "turn": at(4)}
	}
	wantChanges(t, "in time", quiet.Quiet{}.Next(stateOf(t, parts(98_200), nil, "db")), map[string]types.Quantity{
		"db.loud": 50_011, "db.idle": 0, "web.loud": 0, "faded": at(100_000), "turn": at(5),
	})
	early := changes(quiet.Quiet{}.Next(stateOf(t, parts(98_201), nil, "db")))
	if _, changed := early["db.loud"]; changed || len(early) == 0 {
		t.Errorf("a second too early: %v", early)
	}
	wantChanges(t, "first", quiet.Quiet{}.Next(stateOf(t, nil, nil, "db")), map[string]types.Quantity{"faded": at(100_000), "turn": at(1)})
}

// TestTwoPlans: a node that is open for a kind is closed for it by one plan, and opened for its enemy only by
// one whose view shows that. A kind that goes with it is opened at once.
func TestTwoPlans(t *testing.T) {
	for _, c := range []struct {
		name string
		lost types.Quantity
		open []string
		want map[string]types.Quantity
	}{
		{"an enemy is open", 50_012, []string{"loud"}, map[string]types.Quantity{"+loud": 0}},
		{"it is closed", 50_012, nil, map[string]types.Quantity{"+db": types.Inf}},
		{"a harmless one is open", 3_012, []string{"loud"}, map[string]types.Quantity{"+loud": 0, "+db": types.Inf}},
		{"nothing changes", 50_012, []string{"db"}, nil},
	} {
		s := stateOf(t, map[string]types.Quantity{"db.loud": c.lost, "db.alone": 12, "db.db": 12, "faded": at(99_999), "turn": at(4)}, c.open, "db")
		got := changes(quiet.Quiet{}.Next(s))
		for name, amount := range got {
			if want, ok := c.want[name]; strings.HasPrefix(name, "+") && (!ok || amount != want) {
				t.Errorf("%s: the plan sets %s to %d: %v", c.name, name, amount, got)
			}
		}
		for name := range c.want {
			if _, ok := got[name]; !ok {
				t.Errorf("%s: the plan does not set %s: %v", c.name, name, got)
			}
		}
	}
}

// TestOverdue: a kind for which no node is quiet gets none for its time, which a pool of the policy tells,
// then the least bad one, and all after twice that.
func TestOverdue(t *testing.T) {
	for since, want := range map[int]int{99_941: 0, 99_940: 1, 99_876: 1, 99_875: 2} {
		s := stateOf(t, map[string]types.Quantity{"db.loud": 50_012, "db.alone": 12, "db.db": 12, "faded": at(99_999), "loud-db": at(since)}, []string{"loud"}, "db")
		nodes := 0
		for _, x := range (quiet.Quiet{}.Next(s)).Set {
			if x.Name == "calm.quiet.db" && x.Capacity == esl.One {
				nodes += len(x.Where.Nodes)
			}
		}
		if nodes != want {
			t.Errorf("no node has been quiet for %d seconds: it gets %d nodes, want %d", 100_000-since, nodes, want)
		}
	}
}

// TestWhyNoNode: what a task is told names the node, the enemy, what is lost, and the time that is left.
func TestWhyNoNode(t *testing.T) {
	for since, want := range map[int]string{
		99_980: "n0000 (loud: 50 %), n0001 (loud: 50 %); it takes the least bad one in 40s", 99_900: "it takes the least bad one by now",
	} {
		s := stateOf(t, map[string]types.Quantity{"db.loud": 50_012, "loud-db": at(since)}, []string{"loud"}, "db")
		if got := fmt.Sprint(quiet.Quiet{}.WhyUsed(s, esl.Use{}, "db-0")); !strings.Contains(got, "quiet for kind db; what tasks lose there: n0000") || !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
	s := stateOf(t, map[string]types.Quantity{"db.loud": 50_012}, nil, "db")
	if got := fmt.Sprint(quiet.Quiet{}.WhyUsed(s, esl.Use{}, "db-0")); !strings.Contains(got, "is about to be opened for it") {
		t.Errorf("%q", got)
	}
}

// TestRestartWhileWaiting: the time that a task has waited for a quiet node counts on after another program
// has taken over. Two that must be apart get a node each.
func TestRestartWhileWaiting(t *testing.T) {
	run(t, 2, quiet.Quiet{Wait: manifest.Wait(90 * time.Second)}, victim(), func(h *house) {
		h.meet()
		db := h.submit("db", 2, "", place.Apart{})
		esltest.Pass(time.Second)
		h.wantRunning(db, 2, "alone")
		loud := h.submit("loud", 2, "tolerant", place.Apart{})
		esltest.Pass(30 * time.Second)
		h.StopKeeping()
		esltest.Pass(30 * time.Second)
		h.Keep()
		esltest.Pass(25 * time.Second)
		h.wantRunning(loud, 0, "before its time")
		esltest.Pass(10 * time.Second)
		h.wantRunning(loud, 2, "after its time")
	})
}

// TestMostParts: with 400 parts no other one is learned, those known still are, and others are when some of
// these are forgotten.
func TestMostParts(t *testing.T) {
	run(t, 1, quiet.Quiet{Wait: manifest.Wait(time.Hour)}, victim(), func(h *house) {
		set := func(i int, amount types.Quantity) {
			name := fmt.Sprintf("calm.quiet.k%03d.other", i)
			if _, err := h.jobs.SetResource(t.Context(), name, amount, controlplane.InCluster(), controlplane.SetOptions{Declare: amount > 0}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 400 {
			set(i, 12)
		}
		h.submit("db", 1, "")
		esltest.Pass(10 * time.Second)
		h.submit("loud", 1, "tolerant")
		esltest.Pass(time.Minute)
		if _, samples := h.part("db.loud"); samples != 0 {
			t.Errorf("%d samples are known besides 400 parts", samples)
		}
		for i := range 2 {
			set(i, 0)
		}
		esltest.Pass(time.Minute)
		if percent, samples := h.part("db.loud"); percent < 10 || samples < 2 {
			t.Errorf("%d %% by %d samples, with room for two parts", percent, samples)
		}
	})
}

// TestTolerant: kinds that may be slowed share a node at once, and nothing is learned of them.
func TestTolerant(t *testing.T) {
	run(t, 1, quiet.Quiet{Wait: manifest.Wait(time.Hour)}, victim(), func(h *house) {
		db, loud := h.submit("db", 3, "tolerant"), h.submit("loud", 3, "tolerant")
		esltest.Pass(time.Second)
		h.wantRunning(db, 3, "tolerant")
		h.wantRunning(loud, 3, "tolerant")
		esltest.Pass(5 * time.Minute)
		if percent, samples := h.part("db.loud"); samples != 0 {
			t.Errorf("%d %% by %d samples are known", percent, samples)
		}
	})
}

// TestLongestName: a name of 23 letters is taken, one of 24 is not; and the flag knows only one word.
func TestLongestName(t *testing.T) {
	for n, fits := range map[int]bool{1: true, 23: true, 24: false} {
		if _, err := (quiet.Quiet{}).Declare(strings.Repeat("x", n)); (err == nil) != fits || err != nil && !types.Is(err, types.Invalid) {
			t.Errorf("a name of %d letters: %v", n, err)
		}
	}
	flag := quiet.Quiet{}.Describe().Flags[0]
	for text, want := range map[string]string{"calm": "map[name:calm]", "calm=tolerant": "map[as:tolerant name:calm]"} {
		if got, err := flag.Text(text); err != nil || fmt.Sprint(map[string]any(got)) != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if _, err := flag.Text("calm=loud"); !types.Is(err, types.Invalid) {
		t.Errorf("another word is taken: %v", err)
	}
}
