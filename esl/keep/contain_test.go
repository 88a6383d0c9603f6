package keep_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/keep"
	"github.com/escher-sched/escher/types"
)

// rude is a policy that panics in one of its methods.
type rude struct {
	// In names the method.
	In string `json:"in"`
}

func (*rude) Kind() string { return "rude" }

func (*rude) Apply(*esl.Group) error { return nil }

func (p *rude) panics(in string) {
	if p.In == in {
		panic("oh no\nreally")
	}
}

func (p *rude) Next(*esl.State) esl.Plan { p.panics("next"); return esl.Plan{} }

func (p *rude) Watches() []string { p.panics("watches"); return nil }

func (p *rude) Pace() time.Duration { p.panics("pace"); return 0 }

func (p *rude) Why(*esl.State, string) why.Reason { p.panics("why"); return why.Reason{} }

func (p *rude) UnmarshalJSON(b []byte) error {
	p.In = strings.Split(string(b), `"`)[3]
	p.panics("unmarshal")
	return nil
}

// TestPanics lets a policy panic in each method: no other policy suffers, and why reports it.
func TestPanics(t *testing.T) {
	for _, in := range []string{"next", "watches", "pace", "why", "unmarshal"} {
		t.Run(in, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := esltest.NewWorld(t, nil)
				w.Asked = esltest.NewRecord(func(_ string, s *esl.State) esl.Plan { return esltest.SetOwn(s, types.Quantity(1000*len(s.Nodes()))) })
				w.Jobs = w.Client("d")
				kinds := w.Asked.Kinds().With(func() esl.Policy { return &rude{} })
				w.Keep(w.Store, func(o *keep.Options) { o.Kinds = kinds })
				done := w.Submit("b", 1, &esltest.Counter{Name: "good"})
				w.Put(controlplane.PoliciesKey("d", "a"), &types.Policies{Job: "a", Policies: []types.Policy{{Kind: "rude", With: `{"in":"` + in + `"}`}, {Kind: "counter"}}})
				w.Put(controlplane.PoliciesKey("d", "s"), &types.Policies{Policies: []types.Policy{{Kind: "shared"}}})
				esltest.Pass(time.Minute)
				w.Put(controlplane.NodeKey("n1"), &types.Node{})
				w.Put(controlplane.AliveKey("n1"), &types.Alive{})
				esltest.Pass(time.Minute)
				for _, name := range []string{"a.counter", "b.counter", "s.shared"} {
					if got := w.Capacity(name); got != 1000 {
						t.Errorf("%s is %d", name, got)
					}
				}
				w.Put(controlplane.TaskKey("d", "x"), &types.Task{Job: "a"})
				says := esl.Why(w.Snapshot(), kinds, esltest.IDOf("x"), time.Now())
				if in == "why" != (len(says) == 1 && strings.HasSuffix(says[0].Summary, "it panicked: oh no")) {
					t.Errorf("why says %v", says)
				}
				if says := esl.Why(w.Snapshot(), kinds, esltest.IDOf(done.Tasks[0]), time.Now()); len(says) != 0 {
					t.Errorf("of another one why says %v", says)
				}
			})
		})
	}
}
