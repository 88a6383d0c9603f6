package scheduler

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/types"
)

// indexModel is a core with nodes and tasks that come, change and go.
type indexModel struct {
	*bench
	other *bench // another scheduler, on the same store
	n     int
}

// others lets the other scheduler bind its own tasks and release ended ones, while this one has
// something in flight.
func (m *indexModel) others(t *rapid.T) {
	m.tasksOf(t, "other")
	m.tasks(t)
	m.see()
	drafts := m.core.Next(m.now)
	m.other.settle()
	m.see() // before the answers
	for _, d := range drafts {
		res, err := m.store.Commit(m.t.Context(), d.Change.Txn())
		if err != nil {
			t.Fatal(err)
		}
		m.done(d, res)
	}
}

func (m *indexModel) name(t *rapid.T) string {
	return fmt.Sprint("n", rapid.IntRange(0, 80).Draw(t, "node"))
}

// node puts a node, of one of several capacities, with or without devices.
func (m *indexModel) node(t *rapid.T) {
	name, gpus := m.name(t), rapid.IntRange(0, 3).Draw(t, "gpus")
	capacity := map[string]types.Quantity{"cpu": types.Quantity(rapid.IntRange(0, 4).Draw(t, "cpu")) * 1000}
	if gpus > 0 {
		capacity["gpu"] = types.Quantity(gpus) * match.Whole
		d := &types.Devices{}
		for i := range gpus {
			d.Devices = append(d.Devices, types.Device{ID: fmt.Sprint("g", i), Resource: types.GPU})
		}
		m.put(controlplane.DevicesKey(name), d)
	}
	m.put(controlplane.NodeKey(name), &types.Node{Capacity: types.NewRequests(capacity)}, controlplane.AliveKey(name), &types.Alive{})
}

func (m *indexModel) unregister(t *rapid.T) { m.del(controlplane.NodeKey(m.name(t))) }

func (m *indexModel) cordon(t *rapid.T) {
	if name := m.name(t); rapid.Bool().Draw(t, "cordon") {
		m.put(controlplane.CordonKey(name), &types.Cordon{})
	} else {
		m.del(controlplane.CordonKey(name))
	}
}

func (m *indexModel) tasks(t *rapid.T) { m.tasksOf(t, "") }

func (m *indexModel) tasksOf(t *rapid.T, scheduler string) {
	for range rapid.IntRange(1, 10).Draw(t, "tasks") {
		m.n++
		requests := map[string]types.Quantity{"cpu": types.Quantity(rapid.IntRange(1, 15).Draw(t, "cpu")) * 100}
		if rapid.Bool().Draw(t, "gpu") {
			requests["gpu"] = rapid.SampledFrom([]types.Quantity{100, 500, 1000, 2000}).Draw(t, "amount")
		}
		m.task(fmt.Sprint("t", m.n), requests, func(x *types.Task) { x.Scheduler = scheduler })
	}
}

func (m *indexModel) ends(t *rapid.T) {
	id := fmt.Sprint("t", rapid.IntRange(0, max(0, m.n)).Draw(t, "task"))
	if x := m.core.view.Task(clusterID("d", id)); x != nil && len(x.Bindings) > 0 && x.Phase() == types.Bound {
		m.exited(id)
	}
}

// refused lets a draft be refused because of a change.
func (m *indexModel) refused(t *rapid.T) {
	m.tasks(t)
	m.see()
	drafts := m.core.Next(m.now)
	for _, d := range drafts {
		m.done(d, controlplane.Result{Revision: m.store.Revision()})
	}
}

// check compares the index with the view.
func (m *indexModel) check(t *rapid.T) {
	m.other.settle()
	m.settle()
	c := m.core
	for pos, n := range c.nodes.All() {
		room := c.nodes.Blank().RoomOn(n)
		if err := c.nodes.Index().Check(pos, &room); err != nil || c.nodes.Index().Locked(pos) {
			t.Fatalf("%s: %v; locked %t", n.Name, err, c.nodes.Index().Locked(pos))
		}
		if !n.Eligible() || n.Devices.V == nil || !c.nodes.Index().Has(types.GPU) || room.Capacity(types.GPU) == 0 {
			continue
		}
		for _, q := range []types.Quantity{100, 500, 1000, 2000, 3000} {
			var some [8]match.Filter
			if fits := room.Fits(needsOf(types.GPU, q)); match.Passes(c.nodes.Index().Filters(needsOf(types.GPU, q), some[:0]), pos) != fits {
				t.Fatalf("%d gpu fit on %s: %t", q, n.Name, fits)
			}
		}
	}
}

func TestIndex(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &indexModel{bench: newBench(t, Config{Seed: 1})}
		m.other = &bench{t: t, store: m.store, core: New(Config{Name: "other", Seed: 2}), now: m.now}
		for range 70 {
			m.node(rt)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"node": m.node, "unregister": m.unregister, "cordon": m.cordon, "tasks": m.tasks, "ends": m.ends, "refused": m.refused, "others": m.others,
			"": m.check,
		})
	})
}

// TestNodesTakeTurns: tasks with different requests spread like tasks with equal ones.
func TestNodesTakeTurns(t *testing.T) {
	b := newBench(t, Config{Seed: 1})
	for i := range 200 {
		b.node(fmt.Sprintf("n%03d", i), 100_000)
	}
	for i := range 200 {
		b.task(fmt.Sprint("t", i), map[string]types.Quantity{"cpu": types.Quantity(100 + i)})
	}
	b.settle()
	for _, n := range b.core.nodes.All() {
		if k := len(n.Bindings); k > 5 {
			t.Errorf("%s has %d", n.Name, k)
		}
	}
}

// TestManyTasksShareNodes: when many more tasks wait than there are nodes, one transaction puts
// several on a node, and in the end each has its share.
func TestManyTasksShareNodes(t *testing.T) {
	b := newBench(t, Config{Seed: 1, Gather: 64})
	for i := range 100 {
		b.node(fmt.Sprintf("n%03d", i), 100_000)
	}
	for i := range 1000 {
		b.task(fmt.Sprint("t", i), map[string]types.Quantity{"cpu": types.Quantity(1000 + i%7)})
	}
	b.see()
	d := b.core.nextOne(b.now)
	if n, tasks := d.NumNodes(), len(d.Binds); 2*n > tasks {
		t.Errorf("%d tasks on %d nodes", tasks, n)
	}
	res, err := b.store.Commit(t.Context(), d.Change.Txn())
	if err != nil {
		t.Fatal(err)
	}
	b.done(d, res)
	b.settle()
	for _, n := range b.core.nodes.All() {
		if k := len(n.Bindings); k < 5 || k > 15 {
			t.Errorf("%s has %d", n.Name, k)
		}
	}
}

func needsOf(rid types.ResourceID, q types.Quantity) []cluster.Need {
	return []cluster.Need{{ID: rid, Amount: q}}
}
