package keep

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// seeking is a policy that wants a processor of some node, and opens the first one that has it left.
type seeking struct {
	Order int  `json:"order"`
	Alike bool `json:"alike"`

	calls *[]string
}

func (*seeking) Kind() string { return "seeking" }

func (*seeking) Apply(*esl.Group) error { return nil }

func (*seeking) ClusterScoped() {}

func (p *seeking) Next(s *esl.State) esl.Plan {
	*p.calls = append(*p.calls, s.ID)
	one := []cluster.Need{{ID: types.CPU, Amount: 1000}}
	x := esl.Seeking{Like: "one", Order: p.Order, Alike: p.Alike, Take: func(r *match.Room) bool { return r.Put(one, 1) > 0 }}
	for _, r := range s.LeftRooms(p.Order) {
		if r.Fits(one) && !p.Alike {
			x.On, x.Take = []string{r.Node.Name}, nil
			x.Holds = func(r *match.Room) { r.Put(one, 1) }
			break
		}
	}
	s.Seek(x)
	return esl.Plan{}
}

// seekWorld is a loop over a cluster that the test writes.
type seekWorld struct {
	*testing.T
	k        *loop
	now      time.Time
	revision int64
	calls    []string
}

// newSeekWorld begins with full nodes of four processors, and policies that wait.
func newSeekWorld(t *testing.T, nodes, policies int, with func(i int) string) *seekWorld {
	w := &seekWorld{T: t, now: time.Now()}
	w.k = newLoop(memstore.New(), Options{Kinds: esl.Kinds{}.With(func() esl.Policy { return &seeking{calls: &w.calls} })})
	for i := range nodes {
		w.put(controlplane.NodeKey(nodeName(i)), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000})})
		w.put(controlplane.AliveKey(nodeName(i)), &types.Alive{})
		w.uses(i, 4000)
	}
	for i := range policies {
		id := fmt.Sprintf("j%03d", i)
		w.put(controlplane.PoliciesKey("d", id), &types.Policies{Job: id, Policies: []types.Policy{{Kind: "seeking", With: with(i)}}})
	}
	if called := w.look(0); len(called) != policies {
		t.Fatalf("%d of %d are called at first", len(called), policies)
	}
	return w
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i) }

func (w *seekWorld) put(key string, m types.Message) {
	w.revision++
	e := controlplane.Event{KV: controlplane.KV{Key: key, Value: types.Encode(uint64(w.revision), m), CreateRevision: w.revision, ModRevision: w.revision}}
	w.k.apply(w.Context(), controlplane.Update{Revision: w.revision, Events: []controlplane.Event{e}})
}

// uses sets how much of a node is in use.
func (w *seekWorld) uses(node int, cpu types.Quantity) {
	w.put(controlplane.AllocatedKey(nodeName(node)), &types.Allocated{Holds: []types.Holding{{Resource: types.CPU, Amount: cpu}}})
}

// look lets time pass, and returns the policies that are called then, in order.
func (w *seekWorld) look(after time.Duration) []string {
	w.now = w.now.Add(after)
	w.calls = nil
	for i := 0; i == 0 || w.k.turns.ready() || len(w.k.seekers.changed) > 0; i++ {
		if i > 100 {
			w.Fatal("the calls do not end")
		}
		// Rounds are bounded by the clock of the machine.
		w.k.look(w.Context(), maxTime(w.now, time.Now()))
	}
	return slices.Clone(w.calls)
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// TestSeekers frees a node while hundreds of policies wait: as many are called as it takes tasks, the first
// in rank, and the next ones only when the promises of those have lapsed.
func TestSeekers(t *testing.T) {
	w := newSeekWorld(t, 5, 300, func(i int) string { return fmt.Sprintf(`{"order":%d}`, i/298) })
	w.uses(3, 0)
	if got := strings.Join(w.look(0), " "); got != "j298 j299 j000 j001" {
		t.Errorf("called for four processors: %s", got)
	}
	w.uses(1, 4000)
	if got := w.look(0); len(got) != 0 {
		t.Errorf("called for a node that is as full as before: %v", got)
	}
	w.uses(3, 2000) // two of them are bound, and nobody has told
	if got := strings.Join(w.look(0), " "); got != "j298 j299 j000 j001" {
		t.Errorf("called for a node where they have opened room: %s", got)
	}
	w.uses(3, 3000)
	w.look(0)
	if got := strings.Join(w.look(2*promiseFor), " "); got != "j298" {
		t.Errorf("called when promises have lapsed, for one processor: %s", got)
	}
	w.put(controlplane.AliveKey("n4"), &types.Alive{TTLSeconds: 7})
	if got := w.look(0); len(got) != 300 {
		t.Errorf("%d are called when a node joins", len(got))
	}
	for id := range w.k.items {
		w.k.drop(id)
	}
	if x := &w.k.seekers; len(x.groups)+len(x.claims)+len(x.promised) != 0 {
		t.Errorf("left when all are gone: %+v", x)
	}
}

// TestSeekersAlike asks one of many that decide alike.
func TestSeekersAlike(t *testing.T) {
	w := newSeekWorld(t, 2, 100, func(int) string { return `{"alike":true}` })
	w.uses(0, 0)
	if got := strings.Join(w.look(0), " "); got != "j000" {
		t.Errorf("called: %s", got)
	}
	w.uses(0, 1000)
	if got := strings.Join(w.look(0), " "); got != "j000" {
		t.Errorf("called when it has changed again: %s", got)
	}
}

// TestPromises shows a policy what is left beside promises of its own order and above.
func TestPromises(t *testing.T) {
	v := cluster.New()
	s := &esl.State{View: v, Namespace: "d", ID: "me"}
	n := &cluster.Node{Name: "n0"}
	n.Info.V = &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000})}
	one := []cluster.Need{{ID: types.CPU, Amount: 1000}}
	promise := func(by string, order int) esl.Promise {
		return esl.Promise{By: cluster.ID{Namespace: "d", ID: by}, Order: order, Holds: func(r *match.Room) { r.Put(one, 1) }}
	}
	s.Promised = map[string][]esl.Promise{"n0": {promise("me", 9), promise("low", 0), promise("high", 5)}}
	for order, want := range map[int]types.Quantity{0: 2000, 1: 3000, 6: 4000, math.MaxInt: 4000} {
		if free, _ := s.Left(n, order).Free(types.CPU); free != want {
			t.Errorf("at order %d: %d, want %d", order, free, want)
		}
	}
}
