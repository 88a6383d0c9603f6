package keep_test

import (
	"context"
	"slices"
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

// outcomes returns what a log has of the policies under an id, as "label outcome".
func outcomes(l *decisions.Log, ns, id string) string {
	synctest.Wait()
	var all []string
	for _, e := range l.Of(cluster.ID{Namespace: ns, ID: id}, 0).Entries {
		all = append(all, e.Policy+" "+string(e.Outcome))
	}
	return strings.Join(all, ", ")
}

// counters are policies of kind counter, with the given parameters.
func counters(with ...string) *types.Policies {
	p := new(types.Policies)
	for _, one := range with {
		p.Policies = append(p.Policies, types.Policy{Kind: "counter", With: one})
	}
	return p
}

// TestPoliciesOfAKeyChange changes the policies of a key in place: those that stay go on, those that
// are no longer there have ended, and one that cannot be read any more has not.
func TestPoliciesOfAKeyChange(t *testing.T) {
	for name, c := range map[string]struct {
		now  *types.Policies
		want string
	}{
		"others":     {counters(`{"name":"x"}`, `{"name":"y"}`), ""},
		"fewer":      {counters(`{}`), "counter-2 ended"},
		"unreadable": {counters(`{}`, `{"nam":"x"}`), "counter-2 unreadable"},
		"none":       {counters(), "counter ended, counter-2 ended"},
		"elsewhere":  {&types.Policies{Session: "s", Policies: counters(`{}`, `{}`).Policies}, "counter ended, counter-2 ended"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := esltest.NewWorld(t, esltest.NewRecord(nil))
				l := decisions.New(time.Now())
				w.Keep(w.Store, func(o *keep.Options) { o.Decisions = l })
				w.Put(controlplane.PoliciesKey("d", "p"), counters(`{}`, `{}`))
				w.Put(controlplane.PoliciesKey("e", "p"), counters(`{}`))
				esltest.Pass(time.Second)
				w.Put(controlplane.PoliciesKey("d", "p"), c.now)
				esltest.Pass(time.Second)
				want := strings.TrimSuffix("counter nothing, counter-2 nothing, "+c.want, ", ")
				if got := outcomes(l, "d", "p"); sorted(got) != sorted(want) {
					t.Errorf("%s, want %s", got, want)
				}
				if got := outcomes(l, "e", "p"); got != "counter nothing" {
					t.Errorf("of the other namespace: %s", got)
				}
			})
		})
	}
}

// TestWithdrawnWhileItCommits withdraws a policy while its plan is on the way: the plan is refused, and
// the last that the log says is that the policy has ended.
func TestWithdrawnWhileItCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(func(_ string, s *esl.State) esl.Plan { return esltest.SetOwn(s, esl.One) }))
		l := decisions.New(time.Now())
		store := &slowStore{Store: w.Store, takes: time.Second}
		w.Keep(store, func(o *keep.Options) { o.Decisions = l })
		w.Put(controlplane.PoliciesKey("d", "p"), counters(`{}`))
		esltest.Pass(time.Second / 2)
		if _, err := w.Store.Commit(t.Context(), controlplane.Txn{Ops: []controlplane.Op{{Key: controlplane.PoliciesKey("d", "p"), Delete: true}}}); err != nil {
			t.Fatal(err)
		}
		esltest.Pass(time.Minute)
		if got := last(t, l, "p"); got.Outcome != decisions.Ended || w.Capacity("p.counter") != -1 {
			t.Errorf("%s; the capacity is %d", outcomes(l, "d", "p"), w.Capacity("p.counter"))
		}
	})
}

// slowStore takes a while to commit.
type slowStore struct {
	controlplane.Store
	takes time.Duration
}

func (s *slowStore) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	time.Sleep(s.takes)
	return s.Store.Commit(ctx, txn)
}

// sorted sorts a list, as policies of a key are called in any order.
func sorted(list string) string {
	all := strings.Split(list, ", ")
	slices.Sort(all)
	return strings.Join(all, ", ")
}
