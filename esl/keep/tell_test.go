package keep_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/keep"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/types"
)

// tide is a policy of another program, which checks Least by itself.
type tide struct {
	From  int `json:"from"`
	Least int `json:"least,omitempty"`
}

func (*tide) Kind() string { return "acme.com/tide" }

func (*tide) Apply(*esl.Group) error { return nil }

func (*tide) Next(*esl.State) esl.Plan { return esl.Plan{} }

func (p *tide) Validate() error {
	if p.Least < 0 {
		return types.Errorf(types.Invalid, "least: %d is negative: give 0, or more", p.Least)
	}
	return nil
}

// newTide is tide in a program that knows one more parameter.
type newTide struct {
	tide

	Frm int `json:"frm"`
}

// TestWrongParametersAreTold stores the errors in the parameters of another program's policy with
// the policy, and why shows them, without any code for that in the policy or its program.
func TestWrongParametersAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(nil))
		submit := func(id, with string) {
			t.Helper()
			w.Submit(id, 1, esl.Foreign{Name: "acme.com/tide", With: with}, room.Stay{})
		}
		submit("good", `{"from":3}`)
		submit("field", `{"frm":3}`)
		submit("type", `{"from":"three"}`)
		submit("value", `{"from":3,"least":-1}`)
		keeps := func(empty func() esl.Policy) (stop func()) {
			return w.Keep(w.Store, func(o *keep.Options) { o.Kinds = esl.Kinds{}.With(empty) })
		}
		stop := keeps(func() esl.Policy { return &tide{} })
		esltest.Pass(time.Second)
		says := func(id string) string {
			t.Helper()
			kept, _, err := w.Jobs.Policies(t.Context(), id)
			if err != nil || len(kept.Policies) != 2 || kept.Policies[1].Wrong != "" || kept.Job != id {
				t.Fatalf("%s has %+v, %v", id, kept, err)
			}
			return kept.Policies[0].Wrong
		}
		for id, want := range map[string]string{
			"good":  "",
			"field": "frm: is unknown: use from, least",
			"type":  "from: a string is given: write what is of type int",
			"value": "least: -1 is negative: give 0, or more",
		} {
			if got := says(id); got != want {
				t.Errorf("of %s is stored %q, want %q", id, got, want)
			}
			task := w.Snapshot().Members(esltest.IDOf(id))[0].ID.ID
			got := strings.Join(w.Why(task), "\n")
			if found := strings.Contains(got, "the program that keeps it finds this wrong with policy acme.com/tide: "+want); want != "" && !found || want == "" && found {
				t.Errorf("of %s why says %q", id, got)
			}
		}
		// A second program knows it, too: each reports once.
		keeps(func() esl.Policy { return &newTide{} })
		esltest.Pass(time.Second)
		if got := says("field"); got != "" {
			t.Errorf("stored is still %q", got)
		}
		revision := w.Snapshot().Revision
		esltest.Pass(time.Minute)
		if now := w.Snapshot().Revision; now != revision {
			t.Errorf("in a minute there were %d changes", now-revision)
		}
		stop()
	})
}

// fullOnce is a store that is full for the writes of policies, until it is not.
type fullOnce struct {
	controlplane.Store
	full    atomic.Bool
	refused atomic.Int32
}

func (s *fullOnce) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	for _, op := range txn.Ops {
		if strings.HasPrefix(op.Key, controlplane.Prefix(controlplane.Policies)) && s.full.Load() {
			s.refused.Add(1)
			return controlplane.Result{}, types.Errorf(types.Precondition, "put policies: %w", controlplane.ErrFull)
		}
	}
	return s.Store.Commit(ctx, txn)
}

// TestWrongParametersAreToldOnceThereIsRoom stores the error of a policy after the store was full,
// and tries no more often than every other second meanwhile.
func TestWrongParametersAreToldOnceThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(nil))
		w.Submit("value", 1, esl.Foreign{Name: "acme.com/tide", With: `{"from":3,"least":-1}`})
		s := &fullOnce{Store: w.Store}
		s.full.Store(true)
		stop := w.Keep(s, func(o *keep.Options) { o.Kinds = esl.Kinds{}.With(func() esl.Policy { return &tide{} }) })
		esltest.Pass(time.Hour)
		if n := s.refused.Load(); n < 1000 || n > 4000 {
			t.Errorf("the store was asked %d times in an hour", n)
		}
		s.full.Store(false)
		esltest.Pass(10 * time.Second)
		kept, _, err := w.Jobs.Policies(t.Context(), "value")
		if err != nil || !strings.Contains(kept.Policies[0].Wrong, "least: -1 is negative") {
			t.Errorf("stored is %+v, %v", kept, err)
		}
		stop()
	})
}
