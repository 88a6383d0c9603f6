package collect

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// world is a view that a test fills by hand, with the library on it.
type world struct {
	t        *testing.T
	view     *cluster.View
	state    *State
	revision int64
	now      time.Time
	created  map[string]int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, view: cluster.New(), state: New(Config{After: time.Minute}), now: time.Unix(10_000, 0), created: make(map[string]int64)}
}

func (w *world) apply(e controlplane.Event) {
	w.t.Helper()
	key, changed, err := w.view.Apply(e)
	if err != nil {
		w.t.Fatal(err)
	}
	if changed {
		w.state.Touch(w.view, key)
	}
	w.view.Reached(w.revision)
}

func (w *world) put(key string, m types.Message) {
	w.t.Helper()
	w.revision++
	if w.created[key] == 0 {
		w.created[key] = w.revision
	}
	w.apply(controlplane.Event{KV: controlplane.KV{Key: key, Value: types.Encode(1, m), CreateRevision: w.created[key], ModRevision: w.revision}})
}

func (w *world) del(key string) {
	w.t.Helper()
	w.revision++
	delete(w.created, key)
	w.apply(controlplane.Event{Delete: true, KV: controlplane.KV{Key: key, ModRevision: w.revision}})
}

// restart lets another server continue, which knows only what is stored.
func (w *world) restart() {
	w.state = New(Config{After: time.Minute})
	for t := range w.view.Tasks() {
		w.state.Touch(w.view, controlplane.Key{Kind: controlplane.Tasks, Namespace: t.ID.Namespace, ID: t.ID.ID})
	}
	for id := range w.view.Reservations {
		w.state.Touch(w.view, controlplane.Key{Kind: controlplane.Reservations, Namespace: id.Namespace, ID: id.ID})
	}
}

func cpu(q types.Quantity) types.Requests {
	return types.NewRequests(map[string]types.Quantity{"cpu": q})
}

// node adds a node of 1000 cpu, of which tasks use a part: each has a limit of its run time, 0 for
// none.
func (w *world) node(name string, used types.Quantity, maxRun ...time.Duration) {
	w.t.Helper()
	w.put(controlplane.NodeKey(name), &types.Node{Capacity: cpu(1000)})
	w.put(controlplane.AliveKey(name), &types.Alive{})
	w.put(controlplane.AllocatedKey(name), &types.Allocated{Holds: []types.Holding{{Resource: "cpu", Amount: used}}})
	for i, d := range maxRun {
		id, each := fmt.Sprint("on", name, i), used/types.Quantity(len(maxRun))
		w.put(controlplane.TaskKey("d", id), &types.Task{Requests: cpu(each), MaxRun: d})
		w.put(controlplane.StatusKey("d", id), &types.Status{Phase: types.Running, Node: name, Attempt: 1, Bound: w.now.UnixNano()})
		w.put(controlplane.BindingKey(name, "d", id, 1), &types.Binding{
			Bound: w.now.UnixNano(), MaxRun: d, Holds: []types.Holding{{Resource: "cpu", Amount: each}},
		})
	}
}

// ends removes the binding of a task of node.
func (w *world) ends(node string, i int) {
	w.t.Helper()
	w.del(controlplane.BindingKey(node, "d", fmt.Sprint("on", node, i), 1))
}

// gang submits a reservation of bundles of 1000 cpu, some minutes ago.
func (w *world) gang(id string, bundles int, minutes time.Duration, edit ...func(*types.Reservation)) {
	w.t.Helper()
	r := &types.Reservation{Accumulate: true, Submitted: w.now.Add(-minutes * time.Minute).UnixNano()}
	for range bundles {
		r.Bundles = append(r.Bundles, types.Bundle{Requests: cpu(1000)})
	}
	for _, f := range edit {
		f(r)
	}
	w.put(controlplane.ReservationKey("d", id), r)
}

// task submits a task of 1000 cpu, some minutes ago.
func (w *world) task(id string, minutes time.Duration, edit ...func(*types.Task)) {
	w.t.Helper()
	t := &types.Task{Accumulate: true, Requests: cpu(1000), Submitted: w.now.Add(-minutes * time.Minute).UnixNano()}
	for _, f := range edit {
		f(t)
	}
	w.put(controlplane.TaskKey("d", id), t)
}

// has makes a directed reservation hold some cpu on each of its nodes, as a scheduler would.
func (w *world) has(id string, amounts ...types.Quantity) {
	w.t.Helper()
	r := w.view.Reservations[cluster.ID{Namespace: "d", ID: id}]
	g := &types.Grant{Phase: types.Collecting, Reservation: r.Info.Create, Bundles: r.Info.V.Collect.On}
	for i, q := range amounts {
		name := r.Info.V.Collect.On[i]
		g.Nodes = append(g.Nodes, types.GrantNode{Node: name, Holds: []types.Holding{{Resource: "cpu", Amount: q}}})
		used := w.view.Nodes[name].Used("cpu") + q
		if was := r.Grant.V; was != nil {
			for _, h := range was.On(name) {
				used -= h.Amount
			}
		}
		w.put(controlplane.AllocatedKey(name), &types.Allocated{Holds: []types.Holding{{Resource: "cpu", Amount: used}}})
	}
	slices.SortFunc(g.Nodes, func(a, b types.GrantNode) int { return strings.Compare(a.Node, b.Node) })
	w.put(controlplane.GrantKey("d", id), g)
}

// next lets the library decide, stores the changes, and says what they are.
func (w *world) next() string {
	w.t.Helper()
	p := w.state.Next(w.view, w.now)
	c := controlplane.NewChange(1)
	p.Write(w.view, c)
	for _, x := range p.Changes {
		key, mod := controlplane.ReservationKey(x.ID.Namespace, x.ID.ID), int64(0)
		if x.Reservation {
			mod = w.view.Reservations[x.ID].Info.Mod
		} else {
			key, mod = controlplane.TaskKey(x.ID.Namespace, x.ID.ID), w.view.Task(x.ID).Info.Mod
		}
		if !c.Depends(key, mod) {
			w.t.Errorf("it does not compare %s", key)
		}
	}
	var out []string
	for _, x := range p.Changes {
		text := "nothing"
		if x.To != nil {
			text = strings.Join(x.To.On, "+")
			if x.To.LendUntil != 0 {
				text += fmt.Sprint(" until ", time.Unix(0, x.To.LendUntil).Sub(time.Unix(10_000, 0)))
			}
		}
		out = append(out, x.ID.ID+": "+text)
	}
	for _, op := range c.Txn().Ops {
		w.revision++
		w.apply(controlplane.Event{KV: controlplane.KV{Key: op.Key, Value: op.Value, CreateRevision: w.created[op.Key], ModRevision: w.revision}})
	}
	return strings.Join(out, ", ")
}

// says checks what the library changes.
func (w *world) says(want string) {
	w.t.Helper()
	if got := w.next(); got != want {
		w.t.Errorf("at %s: %q, want %q", w.now.Sub(time.Unix(10_000, 0)), got, want)
	}
}

func (w *world) later(d time.Duration) { w.now = w.now.Add(d) }
