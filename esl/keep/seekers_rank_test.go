package keep

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// picky is a policy that wants so many milliprocessors of some node, and opens the first one that has them.
type picky struct {
	Order int            `json:"order"`
	Since int64          `json:"since"`
	CPU   types.Quantity `json:"cpu"`
	// Like is given if one answer holds for all of the same text.
	Like string `json:"like"`
	// Deaf is set for a policy that never says which nodes matter.
	Deaf bool `json:"deaf"`

	w    *seekWorld
	quit map[string]bool
}

func (*picky) Kind() string { return "picky" }

func (*picky) Apply(*esl.Group) error { return nil }

func (*picky) ClusterScoped() {}

func (p *picky) Next(s *esl.State) esl.Plan {
	p.w.calls = append(p.w.calls, s.ID)
	if p.Deaf {
		return esl.Plan{}
	}
	if p.quit[s.ID] {
		s.Seek(esl.Seeking{})
		return esl.Plan{}
	}
	wants := []cluster.Need{{ID: types.CPU, Amount: p.CPU}}
	x := esl.Seeking{Like: fmt.Sprint(p.CPU, p.Like), Alike: p.Like != "", Order: p.Order, Since: p.Since}
	x.Take = func(r *match.Room) bool { return r.Put(wants, 1) > 0 }
	for _, r := range s.LeftRooms(p.Order) {
		if p.Like == "" && r.Fits(wants) {
			x.On, x.Take, x.Holds = []string{r.Node.Name}, nil, func(r *match.Room) { r.Put(wants, 1) }
			break
		}
	}
	s.Seek(x)
	return esl.Plan{}
}

// pickyWorld begins with full nodes of four processors, and policies that wait: "id parameters".
func pickyWorld(t *testing.T, nodes int, policies ...string) (w *seekWorld, quit map[string]bool) {
	w, quit = newSeekWorld(t, nodes, 0, nil), make(map[string]bool)
	w.k.opts.Kinds = esl.Kinds{}.With(func() esl.Policy { return &picky{w: w, quit: quit} })
	w.k.book = esl.NewRegistry(w.k.opts.Kinds)
	for _, text := range policies {
		id, with, _ := strings.Cut(text, " ")
		w.put(controlplane.PoliciesKey("d", id), &types.Policies{Job: id, Policies: []types.Policy{{Kind: "picky", With: with}}})
	}
	if called := w.look(0); len(called) != len(policies) {
		t.Fatalf("%v are called at first", called)
	}
	return w, quit
}

// calls checks which policies are called after a time, in order.
func (w *seekWorld) called(why string, after time.Duration, want string) {
	w.Helper()
	if got := strings.Join(w.look(after), " "); got != want {
		w.Errorf("%s: called are %q, want %q", why, got, want)
	}
}

// TestSeekersByRank calls by order, then by age, then by id, whatever they want, and passes over those that
// what is left is too small for.
func TestSeekersByRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := pickyWorld(t, 2,
			`young {"cpu":1000,"since":9}`, `b {"cpu":500,"since":3}`, `a {"cpu":1000,"since":3}`,
			`old {"cpu":500,"since":1}`, `first {"cpu":1000,"order":2,"since":9}`, `big {"cpu":3000,"order":1}`)
		w.uses(0, 1000)
		w.called("three processors", 0, "first old a b")
		w.uses(1, 0)
		w.called("a whole node", 0, "big young")
	})
}

// TestSeekersRank sorts policies of the same order and age by namespace, id and label, and moves one whose
// order changes.
func TestSeekersRank(t *testing.T) {
	x, v := newSeekers(), cluster.New()
	any := func(order int, since int64, like string) *esl.Seeking {
		return &esl.Seeking{Order: order, Since: since, Like: like, Take: func(*match.Room) bool { return true }}
	}
	add := func(ns, id, label string, to *esl.Seeking) *managedPolicy {
		p := &managedPolicy{of: &managed{id: cluster.ID{Namespace: ns, ID: id}}, label: label}
		x.set(p, to)
		return p
	}
	names := func() (out []string) {
		x.clock++
		x.changed["n"] = x.clock
		defer x.done("n")
		for room := match.On(v, &cluster.Node{Name: "n"}); ; {
			p := x.wants("n", &room)
			if p == nil {
				return out
			}
			p.seen = x.clock
			out = append(out, p.of.id.Namespace+"/"+p.of.id.ID+"."+p.label)
		}
	}
	last := add("e", "a", "pack", any(0, 5, "1"))
	add("d", "b", "pack", any(0, 5, "2"))
	add("d", "a", "spread", any(0, 5, "1"))
	add("d", "a", "pack", any(0, 5, "2"))
	if got := strings.Join(names(), " "); got != "d/a.pack d/a.spread d/b.pack e/a.pack" {
		t.Errorf("in rank: %s", got)
	}
	x.set(last, any(1, 5, "1"))
	if got := names(); len(got) != 4 || got[0] != "e/a.pack" {
		t.Errorf("when the last one has been raised: %v", got)
	}
	x.set(last, any(1, 5, "3"))
	x.set(last, &esl.Seeking{Like: "3"})
	if got := names(); slices.Contains(got, "e/a.pack") || len(x.groups) != 2 {
		t.Errorf("when free capacity does not matter to it: %v of %d groups", got, len(x.groups))
	}
}

// TestPromiseEnds offers a node again when a promise ends: at once if the policy closes the node or is gone,
// else when a second is over and not before.
func TestPromiseEnds(t *testing.T) {
	for name, end := range map[string]func(w *seekWorld, quit map[string]bool){
		"closed": func(w *seekWorld, quit map[string]bool) {
			quit["a"] = true
			w.put(controlplane.JobKey("d", "a"), &types.Job{Tasks: 1})
			w.called(w.Name(), 0, "a b")
		},
		"gone": func(w *seekWorld, _ map[string]bool) {
			w.k.drop(cluster.ID{Namespace: "d", ID: "a"})
			w.called(w.Name(), 0, "b")
		},
		"over": func(w *seekWorld, _ map[string]bool) {
			w.called("just before", promiseFor-1, "")
			w.called(w.Name(), 1, "b")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, quit := pickyWorld(t, 1, `a {"cpu":4000,"since":1}`, `b {"cpu":4000,"since":2}`, `c {"cpu":4000,"since":3}`)
				w.uses(0, 0)
				w.called("at first", 0, "a")
				end(w, quit)
			})
		})
	}
}

// TestCordonedIsNotOffered calls no policy when capacity becomes free on a cordoned node.
func TestCordonedIsNotOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := pickyWorld(t, 2, `a {"cpu":4000}`, `b {"cpu":4000}`)
		w.put(controlplane.CordonKey(nodeName(0)), &types.Cordon{})
		if got := w.look(0); len(got) != 2 { // in no order
			t.Errorf("a cordon is a change of the nodes: called are %q, want both", got)
		}
		w.uses(0, 0)
		w.called("cordoned", 0, "")
		w.uses(1, 0)
		w.called("the other node", 0, "a")
	})
}

// TestDeafIsAlwaysCalled calls a policy that seeks nothing after every change, and one that seeks for none
// that gives it no room.
func TestDeafIsAlwaysCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, quit := pickyWorld(t, 1, `a {"cpu":1000}`, `deaf {"deaf":true}`)
		for range 2 {
			w.uses(0, 4000)
			w.called("a full node", 0, "deaf")
		}
		w.put(controlplane.JobKey("d", "other"), &types.Job{Tasks: 1})
		w.called("another job", 0, "deaf")
		w.uses(0, 0)
		w.called("a free node", 0, "deaf a")
		quit["a"] = true
		w.put(controlplane.JobKey("d", "a"), &types.Job{Tasks: 1})
		w.called("its own job", 0, "a deaf")
		w.uses(0, 0)
		w.called("when nothing matters to it", 0, "deaf")
	})
}

// TestAlikeByLike asks the first of each group of those that decide alike, once until the node changes
// again, and the next one when the first is gone.
func TestAlikeByLike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := pickyWorld(t, 1, `a {"cpu":1000,"like":"x"}`, `b {"cpu":1000,"like":"x"}`, `c {"cpu":1000,"like":"y"}`,
			`d {"cpu":1000,"like":"y","order":1}`, `e {"cpu":2000,"like":"x"}`)
		w.uses(0, 2000)
		w.called("two processors", 0, "d a e")
		w.called("much later", time.Hour, "")
		w.uses(0, 3000)
		w.called("one processor", 0, "d a")
		w.k.drop(cluster.ID{Namespace: "d", ID: "a"})
		w.called("the first is gone", 0, "")
		w.uses(0, 2000)
		w.called("without it", 0, "d b e")
	})
}
