// Package semantics_test is the meaning of the two abstractions, case by case. Each case is a few
// lines. It runs on a store in memory and on etcd, with the real scheduler, agents and collector,
// and ends with the audit of every revision.
package semantics_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/scheduler/explain"
	"github.com/escher-sched/escher/types"
)

// world is a cluster of three nodes of four cores, n1 to n3, n3 in rack r2 and the others in r1,
// and a client of namespace d. No wait takes longer than a minute.
type world struct {
	t   *testing.T
	ctx context.Context
	c   *hollow.Cluster
	*controlplane.Client
	probes int
}

// patience bounds each wait.
const patience = time.Minute

func newWorld(t *testing.T, store controlplane.Store) *world {
	t.Helper()
	cores := map[string]types.Quantity{"cpu": 4000}
	collector := server.DefaultPolicy()
	collector.Gap = 20 * time.Millisecond
	c, err := hollow.Start(context.Background(), hollow.Config{Store: store, NoKeep: true, Collector: collector, Nodes: []hollow.Node{
		{Name: "n1", Capacity: cores, Labels: map[string]string{"rack": "r1"}},
		{Name: "n2", Capacity: cores, Labels: map[string]string{"rack": "r1"}},
		{Name: "n3", Capacity: cores, Labels: map[string]string{"rack": "r2"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w := &world{t: t, ctx: ctx, c: c}
	w.Client = w.as("d")
	t.Cleanup(func() {
		cancel()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// as returns a client of a namespace.
func (w *world) as(ns string) *controlplane.Client {
	c, err := controlplane.New(w.c.Store, ns)
	w.ok(err)
	return c
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// refused expects an error of a class with a text, and that nothing is written.
func (w *world) refused(class types.Class, says string, f func() error) {
	w.t.Helper()
	before := w.stored()
	if err := f(); !types.Is(err, class) || !strings.Contains(err.Error(), says) {
		w.t.Errorf("%v, want %s that says %q", err, class, says)
	}
	if after := w.stored(); after != before {
		w.t.Errorf("something was written:\n%s\nbefore\n%s", after, before)
	}
}

// stored lists the keys written by applications.
func (w *world) stored() string {
	var b strings.Builder
	for _, kind := range []controlplane.Kind{controlplane.Resources, controlplane.Reservations, controlplane.Tasks, controlplane.Jobs} {
		kvs, _, err := controlplane.ListAll(w.ctx, w.c.Store, controlplane.ListOptions{Prefix: controlplane.Prefix(kind)})
		w.ok(err)
		for _, kv := range kvs {
			fmt.Fprintf(&b, "%s of %d\n", kv.Key, kv.ModRevision)
		}
	}
	return b.String()
}

// trySet sets a resource to a capacity as text.
func (w *world) trySet(name, capacity string, where controlplane.Where, opts ...controlplane.SetOptions) error {
	q, err := types.ParseQuantity(name, capacity)
	w.ok(err)
	_, err = w.SetResource(w.ctx, name, q, where, append(opts, controlplane.SetOptions{})[0])
	return err
}

func (w *world) set(name, capacity string, where controlplane.Where, opts ...controlplane.SetOptions) {
	w.t.Helper()
	w.ok(w.trySet(name, capacity, where, opts...))
}

// closed keeps a resource of capacity 0.
func closed() controlplane.SetOptions { return controlplane.SetOptions{Declare: true} }

func with(lifetime types.Lifetime, owner string) controlplane.SetOptions {
	return controlplane.SetOptions{Lifetime: lifetime, Owner: owner}
}

// on is a node, or several.
func on(nodes ...string) controlplane.Where { return controlplane.OnNode(nodes...) }

// needs parses requests: "x=0.5".
func needs(texts ...string) types.Requests {
	amounts := map[string]types.Quantity{}
	for _, text := range texts {
		name, amount, _ := strings.Cut(text, "=")
		q, err := types.ParseQuantity(name, amount)
		if err != nil {
			panic(err)
		}
		amounts[name] = q
	}
	return types.NewRequests(amounts)
}

// submission is a task that runs until it is told to end.
func submission(id string, texts ...string) controlplane.Submission {
	s := hollow.Task(100)
	s.ID, s.Task.Requests = id, needs(texts...)
	return s
}

func provides(s controlplane.Submission, name string, amount types.Quantity, when types.When) controlplane.Submission {
	s.Task.Provides = []types.Provide{{Name: name, Amount: amount, When: when}}
	return s
}

// task submits a task with requests such as "x=1".
func (w *world) task(id string, texts ...string) { w.t.Helper(); w.submit(submission(id, texts...)) }

func (w *world) submit(tasks ...controlplane.Submission) {
	w.t.Helper()
	for _, s := range tasks {
		_, err := w.Launch(w.ctx, s)
		w.ok(err)
	}
}

// job submits tasks as a job.
func (w *world) job(id string, tasks ...controlplane.Submission) {
	w.t.Helper()
	_, err := w.LaunchJob(w.ctx, controlplane.Job{ID: id, Tasks: tasks})
	w.ok(err)
}

// await waits until a condition holds.
func (w *world) await(what string, holds func(*cluster.View) bool) {
	w.t.Helper()
	v, err := w.c.Await(w.ctx, holds)
	if err == nil {
		return
	}
	for t := range v.Tasks() {
		w.t.Logf("%s is %s: %+v", t.ID, t.Phase(), t.Status.V)
	}
	w.t.Fatalf("%s: %v", what, err)
}

func taskOf(v *cluster.View, id string) (types.Phase, string) {
	t := v.Task(cluster.ID{Namespace: "d", ID: id})
	if t == nil || t.Status.V == nil {
		return types.Pending, ""
	}
	return t.Phase(), t.Status.V.Full().Node
}

// runs waits until tasks run; "a@n1" on that node.
func (w *world) runs(ids ...string) {
	w.t.Helper()
	for _, text := range ids {
		id, node, placed := strings.Cut(text, "@")
		w.await(text+" is to run", func(v *cluster.View) bool {
			phase, at := taskOf(v, id)
			return phase == types.Running && (!placed || at == node)
		})
	}
}

// is waits until a task has reached a phase.
func (w *world) is(id string, want types.Phase) {
	w.t.Helper()
	w.await(fmt.Sprintf("%s is to be %s", id, want), func(v *cluster.View) bool {
		phase, _ := taskOf(v, id)
		return phase == want
	})
}

// waits checks that tasks wait after the scheduler has seen everything stored: it has placed a
// later task.
func (w *world) waits(ids ...string) {
	w.t.Helper()
	w.settle()
	w.still(types.Pending, ids...)
}

// still checks the current phase of tasks.
func (w *world) still(want types.Phase, ids ...string) {
	w.t.Helper()
	v, err := w.c.View(w.ctx)
	w.ok(err)
	for _, id := range ids {
		if phase, at := taskOf(v, id); phase != want {
			w.t.Errorf("%s is %s on %s, want %s", id, phase, at, want)
		}
	}
}

// settle waits until the scheduler has placed a task submitted after everything stored now, and the
// collector has run.
func (w *world) settle() {
	w.t.Helper()
	probe := w.as("probe")
	for range 2 {
		w.probes++
		s := hollow.Task(1, "run", "30ms")
		s.ID = fmt.Sprintf("probe-%d", w.probes)
		_, err := probe.Launch(w.ctx, s)
		w.ok(err)
		_, err = probe.Wait(w.ctx, controlplane.UntilEnded, s.ID)
		w.ok(err)
	}
}

// finish ends the process of a task, and waits until that is known.
func (w *world) finish(id string, code int) {
	w.t.Helper()
	w.ok(w.c.Finish(w.ctx, "d", id, code))
	w.ended(id)
}

func (w *world) ended(ids ...string) {
	w.t.Helper()
	_, err := w.Wait(w.ctx, controlplane.UntilEnded, ids...)
	w.ok(err)
}

// kill ends a machine and its session, and waits until it is known to be gone.
func (w *world) kill(node string) {
	w.t.Helper()
	w.ok(w.c.Kill(w.ctx, node))
	w.await(node+" is to be gone", func(v *cluster.View) bool { return v.Nodes[node].Alive.V == nil })
}

// back starts the machine again.
func (w *world) back(node string) {
	w.t.Helper()
	w.ok(w.c.Return(node))
	w.await(node+" is to be back", func(v *cluster.View) bool { return v.Nodes[node].Alive.V != nil })
}

// amounts returns a client's view of a resource: on a node, or of the cluster.
func (w *world) amounts(c *controlplane.Client, name, node string) (cluster.Amounts, bool) {
	w.t.Helper()
	s, err := cluster.ClusterState(w.ctx, c)
	w.ok(err)
	if node == types.ClusterWide {
		return s.Pool(name)
	}
	return s.Node(node).Get(name)
}

// has checks the capacity and the free amount of a resource on a node; "-" for none.
func (w *world) has(name, node, capacity, free string) {
	w.t.Helper()
	a, ok := w.amounts(w.Client, name, node)
	got := [2]string{a.Capacity.Format(types.ResourceID(name)), a.Free.Format(types.ResourceID(name))}
	if !ok {
		got = [2]string{"-", "-"}
	}
	if got != [2]string{capacity, free} {
		w.t.Errorf("%s of %s: there are %s and %s are free, want %s and %s", node, name, got[0], got[1], capacity, free)
	}
}

// free checks the free amount of a resource on all nodes together.
func (w *world) free(name, want string) {
	w.t.Helper()
	s, err := cluster.ClusterState(w.ctx, w.Client)
	w.ok(err)
	var sum types.Quantity
	for i := range s.Nodes {
		sum += s.Nodes[i].Free(name)
	}
	if got := sum.Format(types.ResourceID(name)); got != want {
		w.t.Errorf("%s of %s are free, want %s", got, name, want)
	}
}

// gone waits until a key is deleted.
func (w *world) gone(key string) {
	w.t.Helper()
	w.await(key+" is to be gone", func(*cluster.View) bool {
		page, err := w.c.Store.List(w.ctx, controlplane.ListOptions{Key: key})
		return err == nil && len(page.KVs) == 0
	})
}

func (w *world) there(key string) {
	w.t.Helper()
	page, err := w.c.Store.List(w.ctx, controlplane.ListOptions{Key: key})
	if err != nil || len(page.KVs) == 0 {
		w.t.Errorf("%s is not there, %v", key, err)
	}
}

// why explains what a task waits for.
func (w *world) why(id string) why.Explanation {
	w.t.Helper()
	v, err := w.c.View(w.ctx)
	w.ok(err)
	e, err := explain.Explain(v, cluster.ID{Namespace: "d", ID: id}, time.Now())
	w.ok(err)
	return e
}

// audited checks every revision, and that nothing is left behind.
func (w *world) audited() {
	w.t.Helper()
	if err := w.c.Audit(w.ctx); err != nil {
		w.t.Error(err)
	}
	report, err := audit.Run(w.ctx, w.c.Store)
	w.ok(err)
	for _, f := range report.Findings {
		w.t.Error(f)
	}
}

// sample is one case.
type sample struct {
	name string
	run  func(w *world)
}

// TestInMemory runs every case on a store in memory, in virtual time.
func TestInMemory(t *testing.T) {
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				s.run(w)
				w.audited()
			})
		})
	}
}

// TestOnEtcd runs every case on etcd.
func TestOnEtcd(t *testing.T) {
	store := etcdstore.New(etcdtest.Start(t).Client, etcdstore.ServerLimits())
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			t.Cleanup(func() { wipe(t, store) })
			w := newWorld(t, store)
			s.run(w)
			w.audited()
		})
	}
}

// wipe deletes everything.
func wipe(t *testing.T, store controlplane.Store) {
	ctx := context.Background()
	kvs, _, err := controlplane.ListAll(ctx, store, controlplane.ListOptions{Prefix: controlplane.Root, KeysOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var txn controlplane.Txn
	for _, kv := range kvs {
		txn.Ops = append(txn.Ops, controlplane.Op{Key: kv.Key, Delete: true})
	}
	if _, err := store.Commit(ctx, txn); err != nil {
		t.Fatal(err)
	}
}
