package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// junk is part of every key planted by the faults, and of no other: the random part of an id has no 0.
const junk = "junk0"

// application is a program that submits tasks to a namespace. An incarnation of it makes its calls,
// and may die during any of them.
type application struct {
	w  *world
	ns string

	calls chan call
}

// call is one call of the client.
type call struct {
	what string
	do   func(ctx context.Context, c *esl.Client) error
}

func (a *application) run(ctx context.Context, store controlplane.Store) error {
	client, err := controlplane.New(store, a.ns)
	if err != nil {
		return err
	}
	jobs := builtin.New(client)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c := <-a.calls:
			a.w.goes.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
				defer cancel()
				err := c.do(ctx, jobs)
				a.w.note("%s: %s: %v", a.ns, c.what, err)
				if types.ClassOf(err) == types.Internal && err != nil && ctx.Err() == nil {
					a.w.fail("%s: %s: %v", a.ns, c.what, err)
				}
			})
		}
	}
}

// ask passes a call to the application, if it is there.
func (a *application) ask(what string, do func(ctx context.Context, c *esl.Client) error) {
	select {
	case a.calls <- call{what, do}:
	case <-time.After(5 * time.Second):
		a.w.note("%s: %s: no program is there to do it", a.ns, what)
	}
}

// work does the steps of the workload, and the faults that do not depend on a call.
func (w *world) work(r *rand.Rand, n int) {
	for i := range n {
		time.Sleep(time.Duration(r.IntN(600)) * time.Millisecond)
		app := w.apps[r.IntN(len(w.apps))]
		switch p := r.IntN(100); {
		case p < 76 && w.changes && i%2 == 0:
			w.change(r, app)
		case p < 76:
			w.ask(r, app, i)
		case p < 82:
			w.administer(r, app)
		default:
			w.disturb(r, i)
		}
	}
}

// change evicts a task and stops it at once, so that a late copy of the first change may undo the
// second.
func (w *world) change(r *rand.Rand, a *application) {
	w.with(r, a.ns, controlplane.Tasks, func(id string) {
		a.ask("evict "+id, func(ctx context.Context, c *esl.Client) error { return c.Evict(ctx, id, 0) })
		a.ask("stop "+id, func(ctx context.Context, c *esl.Client) error {
			return c.Stop(ctx, id, controlplane.StopOptions{Reason: "enough", Grace: time.Second})
		})
	})
}

// ask makes an application do something.
func (w *world) ask(r *rand.Rand, a *application, i int) {
	id := fmt.Sprintf("t%d", i)
	command := []string{"run", fmt.Sprintf("%dms", r.IntN(15000)), "exit", fmt.Sprint(max(0, r.IntN(6)-4))}
	if r.IntN(5) == 0 {
		command = []string{"stop", fmt.Sprintf("%dms", r.IntN(3000))}
	}
	task := hollow.Task(250*(1+r.IntN(6)), command...)
	task.Task.Retries = max(0, r.IntN(5)-2)
	switch p := r.IntN(100); {
	case p < 30:
		task.ID = id
		if r.IntN(3) == 0 {
			task.Task.Requests = append(task.Task.Requests, types.Request{Name: name(r), Amount: 1000})
			slices.SortFunc(task.Task.Requests, func(x, y types.Request) int { return strings.Compare(x.Name, y.Name) })
		}
		a.ask("launch "+id, func(ctx context.Context, c *esl.Client) error {
			_, err := c.Launch(ctx, task)
			return err
		})
	case p < 45:
		task.Task.Retries = 0 // A gang has its own restarts.
		job := controlplane.Job{ID: "j" + id, Tasks: esl.Copies(1+r.IntN(4), task)}
		policies := policiesOf(r)
		a.ask("submit "+job.ID, func(ctx context.Context, c *esl.Client) error {
			_, err := c.Submit(ctx, job, policies...)
			return err
		})
	case p < 60:
		resource, where, capacity := resourceOf(r)
		a.ask("set "+resource+" "+where.String(), func(ctx context.Context, c *esl.Client) error {
			_, err := c.SetResource(ctx, resource, capacity, where, controlplane.SetOptions{})
			return err
		})
	case p < 72:
		b := make([]types.Bundle, 1+r.IntN(3))
		for i := range b {
			b[i].Requests = types.NewRequests(map[string]types.Quantity{string(types.CPU): types.Quantity(500 * (1 + r.IntN(4)))})
		}
		accumulate := r.IntN(3) == 0
		task.Task.Requests = types.Requests{{Name: "cpu@r" + id, Amount: 500}}
		a.ask("reserve r"+id, func(ctx context.Context, c *esl.Client) error {
			t := c.Begin(nil).Reserve("r"+id, types.Reservation{Bundles: b, Accumulate: accumulate})
			t.Launch(controlplane.Submission{ID: id, Task: task.Task, Spec: task.Spec})
			_, err := t.Commit(ctx)
			return err
		})
	case p < 80:
		w.with(r, a.ns, controlplane.Reservations, func(id string) {
			a.ask("unreserve "+id, func(ctx context.Context, c *esl.Client) error { return c.Unreserve(ctx, id) })
		})
	case p < 90:
		w.with(r, a.ns, controlplane.Tasks, func(id string) {
			a.ask("stop "+id, func(ctx context.Context, c *esl.Client) error {
				return c.Stop(ctx, id, controlplane.StopOptions{Reason: "enough", Grace: time.Second})
			})
		})
	case p < 95:
		w.with(r, a.ns, controlplane.Tasks, func(id string) {
			a.ask("evict "+id, func(ctx context.Context, c *esl.Client) error { return c.Evict(ctx, id, 0) })
		})
	default:
		w.with(r, a.ns, controlplane.Tasks, func(id string) {
			a.ask("remove "+id, func(ctx context.Context, c *esl.Client) error { return c.Remove(ctx, id) })
		})
	}
}

// name draws the name of an ephemeral resource.
func name(r *rand.Rand) string { return []string{"lock", "data", "slot"}[r.IntN(3)] }

func resourceOf(r *rand.Rand) (string, controlplane.Where, types.Quantity) {
	capacity := types.Quantity(1000 * r.IntN(4))
	switch n := name(r); n {
	case "lock":
		return n, controlplane.InCluster(), capacity
	case "data":
		return n, controlplane.OnNode(fmt.Sprintf("n%d", r.IntN(nodes))), capacity
	default:
		return n, controlplane.OnEvery(), capacity
	}
}

func policiesOf(r *rand.Rand) []esl.Policy {
	return [][]esl.Policy{nil, {gang.Gang{}}, {gang.Gang{Loss: esl.Restart}}, {place.Apart{}}, {place.Spread{}}, {gang.Gang{PerNode: 2}}}[r.IntN(6)]
}

// with calls do with a random stored object of a kind.
func (w *world) with(r *rand.Rand, ns string, kind controlplane.Kind, do func(id string)) {
	kvs := w.list(controlplane.Prefix(kind, ns))
	kvs = slices.DeleteFunc(kvs, func(kv controlplane.KV) bool { return planted(kv.Key) })
	if len(kvs) > 0 {
		k, _ := controlplane.Parse(kvs[r.IntN(len(kvs))].Key)
		do(k.ID)
	}
}

// administer changes cordons and budgets.
func (w *world) administer(r *rand.Rand, a *application) {
	node := fmt.Sprintf("n%d", r.IntN(nodes))
	switch r.IntN(4) {
	case 0:
		// With the first, the namespace is over its budget now and then.
		budget := types.Budget{Keys: []int64{30, 0}[r.IntN(2)], Pending: []int64{5, 0}[r.IntN(2)]}
		a.ask("budget "+fmt.Sprint(budget), func(ctx context.Context, c *esl.Client) error {
			return c.SetNamespace(ctx, a.ns, func(n *types.Namespace) error { n.Budget = &budget; return nil })
		})
	case 1:
		a.ask("uncordon "+node, func(ctx context.Context, c *esl.Client) error { _, err := c.Uncordon(ctx, node); return err })
	default:
		want := types.Cordon{Reason: "work"}
		if r.IntN(2) == 0 {
			want.Drain, want.Grace = types.DrainMove, time.Second
			if r.IntN(2) == 0 {
				want.Drain, want.DrainBy = types.DrainFinish, time.Now().Add(10*time.Second).UnixNano()
			}
		}
		a.ask("cordon "+node, func(ctx context.Context, c *esl.Client) error { _, err := c.Cordon(ctx, node, want); return err })
	}
}

// disturb causes a fault of the cluster that does not depend on a call.
func (w *world) disturb(r *rand.Rand, i int) {
	p := w.parts[r.IntN(len(w.parts))]
	m := w.machines[r.IntN(len(w.machines))]
	l := p.current()
	switch r.IntN(15) {
	case 0, 1:
		if l != nil {
			w.note("%s is killed", p.name)
			l.kill()
		}
	case 2, 3:
		if l != nil {
			away := time.Duration(r.IntN(25000)) * time.Millisecond
			w.note("%s is cut off for %s", p.name, away)
			l.sever(away)
		}
	case 4, 5:
		if l != nil {
			d := time.Duration(r.IntN(5000)) * time.Millisecond
			w.note("%s is denied all for %s", p.name, d)
			l.deny(d)
		}
	case 6, 7:
		w.note("the history is compacted")
		_ = w.store.Compact(w.ctx, max(1, w.store.Revision()-int64(r.IntN(5))))
	case 8, 9:
		by := time.Duration(r.IntN(12000)) * time.Millisecond
		w.note("the clock of %s jumps by %s", m.name, by)
		m.jump(by)
	case 10, 11:
		w.note("%s reboots", m.name)
		m.reboot()
	case 12:
		w.note("the store is full")
		_ = w.store.SetFull(w.ctx, true)
	case 13, 14:
		w.plant(r, i)
	}
}

// plant puts an unreadable value under a key of some kind.
func (w *world) plant(r *rand.Rand, i int) {
	ns, id, node := []string{"a", "b"}[r.IntN(2)], fmt.Sprintf("%s%d", junk, i), fmt.Sprintf("n%d", r.IntN(nodes))
	keys := []string{
		controlplane.TaskKey(ns, id), controlplane.StatusKey(ns, id), controlplane.BindingKey(node, ns, id, 1), controlplane.ReportKey(node, ns, id, 1),
		controlplane.JobKey(ns, id), controlplane.ReservationKey(ns, id), controlplane.GrantKey(ns, id), controlplane.NodeKey(id),
		controlplane.AliveKey(id), controlplane.CordonKey(id), controlplane.ResourceKey(ns, id, node), controlplane.PoliciesKey(ns, id),
		controlplane.SpecKey(ns, id), controlplane.AllocatedKey(id),
	}
	key := keys[r.IntN(len(keys))]
	w.note("junk is put under %s", key)
	_, _ = w.store.Commit(w.ctx, controlplane.Txn{Ops: []controlplane.Op{{Key: key, Value: []byte("no message")}}})
}
