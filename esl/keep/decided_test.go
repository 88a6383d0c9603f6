package keep_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/decisions"
	"github.com/escher-sched/escher/esl/keep"
	"github.com/escher-sched/escher/types"
)

// decide is a policy of the test by its name.
func decide(name string, s *esl.State) esl.Plan {
	switch name {
	case "idle":
		_ = s.Nodes()
		return esl.Plan{Idle: "no task is late", Reason: "not shown"}
	case "sets":
		return esltest.SetOwn(s, 2*esl.One)
	case "panics":
		panic("oh no\nreally")
	case "stale":
		return esl.Plan{Stop: []esl.Stop{{Task: s.Members()[0].ID.ID}}, If: controlplane.ReadSet{controlplane.NodeKey("n1"): 99}}
	case "lacks":
		s.NoteLacking(s.Job, types.Resolve(s.Namespace, "data.ready"))
		return esl.Plan{}
	}
	return esl.Plan{RequeueAfter: s.Now.Truncate(time.Hour).Add(time.Hour)}
}

// smallStore takes small transactions.
type smallStore struct{ controlplane.Store }

// Limits allows few changes at once.
func (s smallStore) Limits() controlplane.Limits {
	limits := s.Store.Limits()
	limits.Ops = 64
	return limits
}

// last returns the last decision of the policies of a job.
func last(t *testing.T, l *decisions.Log, id string) decisions.Entry {
	t.Helper()
	synctest.Wait()
	entries := l.Of(cluster.ID{Namespace: "d", ID: id}, 0).Entries
	if len(entries) == 0 {
		t.Fatalf("no decision of %s is known", id)
	}
	return entries[len(entries)-1]
}

// TestDecisionsAreLogged runs policies that do nothing, something, or fail: the log says what became of
// each decision, and why.
func TestDecisionsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(decide))
		l := decisions.New(time.Now())
		w.Keep(w.Store, func(o *keep.Options) { o.Decisions = l })
		for _, name := range []string{"idle", "sets", "panics", "stale", "lacks", "hourly"} {
			w.Submit(name, 2, &esltest.Counter{Name: name})
		}
		esltest.Pass(time.Minute)
		for name, want := range map[string]decisions.Entry{
			"idle":   {Outcome: decisions.Nothing, Reason: "no task is late"},
			"panics": {Outcome: decisions.Failed, Error: "it panicked: oh no"},
			"stale":  {Outcome: decisions.Refused, Changes: []string{"stop 1 task: "}, Error: "decide again"},
			"lacks":  {Outcome: decisions.Nothing, Reason: "there is too little of data.ready"},
			"hourly": {Outcome: decisions.Nothing},
		} {
			got := last(t, l, name)
			changes := strings.Join(got.Changes, "\n")
			if got.Policy != "counter" || got.Outcome != want.Outcome || got.Reason != want.Reason || !strings.Contains(got.Error, want.Error) || !strings.HasPrefix(changes, strings.Join(want.Changes, "\n")) {
				t.Errorf("%s: %+v", name, got)
			}
			if again := got.Again != nil; again != (name == "hourly" || name == "panics" || name == "stale") {
				t.Errorf("%s is called again at %v", name, got.Again)
			}
		}
		entries := l.Of(cluster.ID{Namespace: "d", ID: "sets"}, 0).Entries
		if len(entries) < 2 || entries[0].Outcome != decisions.Done || entries[0].Committed == 0 || entries[0].Changes[0] != "set 1 resource: sets.counter = 2" {
			t.Errorf("sets: %+v", entries)
		}
		if p := last(t, l, "panics"); p.Times < 5 {
			t.Errorf("%d panics are told", p.Times)
		}
		if got := last(t, l, "stale"); got.Woken != "another try" {
			t.Errorf("after a refusal: %+v", got)
		}
		w.Put(controlplane.NodeKey("n1"), &types.Node{})
		w.Put(controlplane.AliveKey("n1"), &types.Alive{})
		esltest.Pass(time.Second)
		if got := last(t, l, "idle"); got.Times < 2 || !strings.Contains(got.Woken, "node n1") || got.Looked == nil || got.Looked.Nodes != 1 {
			t.Errorf("after a change of a node: %+v, read %v", got, got.Looked)
		}
		esltest.Pass(time.Hour)
		if got := last(t, l, "hourly"); got.Woken != "the time that it named" {
			t.Errorf("after an hour: %+v", got)
		}
	})
}

// TestPartsAndEndsAreLogged logs a plan that takes several transactions, a policy that its program
// cannot read, and one that has ended.
func TestPartsAndEndsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(func(_ string, s *esl.State) esl.Plan {
			var plan esl.Plan
			for _, task := range s.Members() {
				if task.Info.V.Stop == nil {
					plan.Stop = append(plan.Stop, esl.Stop{Task: task.ID.ID})
				}
			}
			return plan
		}))
		l := decisions.New(time.Now())
		w.Keep(smallStore{w.Store}, func(o *keep.Options) { o.Decisions = l })
		w.Submit("many", 600, &esltest.Counter{})
		w.Put(controlplane.PoliciesKey("d", "odd"), &types.Policies{Job: "odd", Policies: []types.Policy{{Kind: "counter", With: `{"nam":"x"}`}}})
		esltest.Pass(time.Minute)
		if got := last(t, l, "odd"); got.Outcome != decisions.Unreadable || !strings.Contains(got.Error, "nam: is unknown") {
			t.Errorf("%+v", got)
		}
		if many := l.Of(cluster.ID{Namespace: "d", ID: "many"}, 0).Entries; len(many) < 3 || many[0].Outcome != decisions.Partly || many[len(many)-1].Outcome != decisions.Nothing {
			t.Errorf("many: %+v", many)
		}
		w.Put(controlplane.PoliciesKey("d", "brief"), &types.Policies{Job: "brief", Policies: []types.Policy{{Kind: "counter"}}})
		esltest.Pass(time.Second)
		if _, err := w.Store.Commit(t.Context(), controlplane.Txn{Ops: []controlplane.Op{{Key: controlplane.PoliciesKey("d", "brief"), Delete: true}}}); err != nil {
			t.Fatal(err)
		}
		if got := last(t, l, "brief"); got.Outcome != decisions.Ended {
			t.Errorf("%+v", got)
		}
	})
}
