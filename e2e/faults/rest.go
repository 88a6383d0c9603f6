package faults

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

// settled is the time after which a cluster without faults has nothing left to do: a scheduler
// waits five minutes after most nodes vanished.
const settled = 8 * time.Minute

// inFlight is the time after which no call of a client, and no late transaction, is in flight.
const inFlight = 40 * time.Second

// rest ends the faults, and checks that the cluster completes all work: as it is, and after
// everything was told to stop.
func (w *world) rest() {
	w.note("the faults stop")
	w.mu.Lock()
	w.quiet = true
	w.mu.Unlock()
	time.Sleep(inFlight)
	ctx := context.Background()
	admin, err := controlplane.New(w.store, "a")
	if err != nil {
		w.fail("%v", err)
		return
	}
	for _, m := range w.machines {
		if _, err := admin.Uncordon(ctx, m.name); err != nil && !types.Is(err, types.NotFound) {
			w.fail("uncordon %s: %v", m.name, err)
		}
	}
	time.Sleep(settled)
	w.checkAtRest()
	if w.found() {
		return
	}
	w.note("everything is stopped")
	for _, a := range w.apps {
		w.stopAll(ctx, a.ns)
	}
	time.Sleep(settled)
	w.checkAtRest()
	w.checkEmpty()
}

// stopAll stops the tasks and removes the reservations of a namespace.
func (w *world) stopAll(ctx context.Context, ns string) {
	c, err := controlplane.New(w.store, ns)
	if err != nil {
		w.fail("%v", err)
		return
	}
	for _, kv := range w.list(controlplane.Prefix(controlplane.Tasks, ns)) {
		if k, ok := controlplane.Parse(kv.Key); ok && !planted(kv.Key) {
			if err := c.Stop(ctx, k.ID, controlplane.StopOptions{Reason: "the end"}); err != nil && !types.Is(err, types.NotFound) {
				w.fail("stop %s: %v", k.ID, err)
			}
		}
	}
	for _, kv := range w.list(controlplane.Prefix(controlplane.Reservations, ns)) {
		if k, ok := controlplane.Parse(kv.Key); ok && !planted(kv.Key) {
			if err := c.Unreserve(ctx, k.ID); err != nil && !types.Is(err, types.NotFound) {
				w.fail("unreserve %s: %v", k.ID, err)
			}
		}
	}
}

// checkAtRest checks the state after a time without faults.
func (w *world) checkAtRest() {
	v := cluster.New()
	kvs := w.list(controlplane.Root)
	for _, kv := range kvs {
		_, _, _ = v.Apply(controlplane.Event{KV: kv})
	}
	v.Reached(w.store.Revision())
	for _, m := range w.machines {
		if n := v.Nodes[m.name]; n == nil || !n.Eligible() {
			w.fail("%s is not alive", m.name)
		}
	}
	plan := scheduler.Schedule(v, scheduler.Config{Limits: w.store.Limits()}, time.Now())
	for _, b := range plan.Binds {
		w.fail("%s waits, and fits on %s", b.Task, b.Node)
	}
	for _, id := range plan.Grants {
		w.fail("reservation %s waits, and fits", id)
	}
	for _, f := range w.stillLeft() {
		w.fail("at rest: %s", f)
	}
	w.checkProcesses()
}

// stillLeft returns the findings that stay for half a minute, as audit.Run does: a task may end, or
// run again, the moment before.
func (w *world) stillLeft() []audit.Finding {
	found := w.leftNow()
	for range 10 {
		if len(found) == 0 {
			break
		}
		time.Sleep(3 * time.Second)
		found = audit.Still(found, w.leftNow())
	}
	return found
}

// leftNow returns what is unfinished, apart from what the test planted.
func (w *world) leftNow() []audit.Finding {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := append(w.checker.Left(), w.checker.Stuck()...)
	found = append(found, w.checker.Standing()...)
	return slices.DeleteFunc(found, func(f audit.Finding) bool { return ofPlanted(f) })
}

// checkProcesses checks that every process on a machine is bound to it.
func (w *world) checkProcesses() {
	for _, m := range w.machines {
		for _, id := range m.runtime.Running() {
			a := m.attempt(id)
			page, err := w.store.List(context.Background(), controlplane.ListOptions{Key: controlplane.BindingKey(m.name, a.Namespace, a.Task, a.Number)})
			if err != nil || len(page.KVs) == 0 {
				w.fail("%s/%s runs on %s, and is not bound there: %v", a.Namespace, a.Task, m.name, err)
			}
		}
	}
}

// attempt returns the attempt of a container.
func (m *machine) attempt(id string) nodeagent.Attempt {
	all, _ := m.runtime.List(context.Background())
	for _, o := range all {
		if o.ID == id {
			return o.Attempt
		}
	}
	return nodeagent.Attempt{}
}

// checkEmpty checks that every task has ended, nothing is held, and nothing runs.
func (w *world) checkEmpty() {
	phases := make(map[string]types.Status)
	for _, kv := range w.list(controlplane.Prefix(controlplane.Statuses)) {
		var st types.Status
		if k, ok := controlplane.Parse(kv.Key); ok && controlplane.Read(kv, &st) {
			phases[controlplane.TaskKey(k.Namespace, k.ID)] = st
		}
	}
	for _, kv := range w.list(controlplane.Prefix(controlplane.Tasks)) {
		var t types.Task
		if st := phases[kv.Key]; !planted(kv.Key) && controlplane.Read(kv, &t) && !st.Phase.Ended() {
			w.fail("%s has not ended: of job %q, stop %+v, status %+v", strings.TrimPrefix(kv.Key, controlplane.Root), t.Job, t.Stop, st)
		}
	}
	for _, kind := range []controlplane.Kind{controlplane.Bindings, controlplane.Reports, controlplane.Grants, controlplane.Policies} {
		for _, kv := range w.list(controlplane.Prefix(kind)) {
			if !planted(kv.Key) {
				w.fail("%s is left", strings.TrimPrefix(kv.Key, controlplane.Root))
			}
		}
	}
	for _, kv := range w.list(controlplane.Prefix(controlplane.Allocated)) {
		var a types.Allocated
		if !planted(kv.Key) && controlplane.Read(kv, &a) && len(a.Holds) > 0 {
			w.fail("%s is left with %v", kv.Key, a.Holds)
		}
	}
	for _, m := range w.machines {
		if left := m.runtime.Running(); len(left) > 0 {
			w.fail("%s runs %v", m.name, left)
		}
	}
}
