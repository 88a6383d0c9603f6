package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// q is the quantities of a request vector.
type q = map[string]types.Quantity

// small is a cluster with waiting work, built with the client, agent reports and a scheduler that
// is stepped by hand, and audited.
type small struct {
	t      *testing.T
	store  *memstore.Store
	core   *scheduler.Core
	client *controlplane.Client
	seen   int64
	now    time.Time
}

// newSmall makes an empty cluster, without the audit.
func newSmall(t *testing.T) *small {
	w := &small{t: t, store: memstore.New(), core: scheduler.New(scheduler.Config{Name: "s1", Gather: 1, FoldFrom: 1}), now: time.Now()}
	client, err := controlplane.New(w.store, "d")
	w.must(err)
	w.client = client
	return w
}

// inSmall runs f with a cluster at a fixed time.
func inSmall(t *testing.T, f func(w *small)) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmall(t)
		t.Cleanup(w.check)
		f(w)
	})
}

// check passes every revision to the audit.
func (w *small) check() {
	checker := audit.NewChecker()
	for _, batch := range w.store.Events(1) {
		for _, f := range checker.Apply(batch) {
			if f.Guarantee != audit.JobWhole && f.Guarantee != audit.SpecKept { // jobs come before their tasks, and there are no specs
				w.t.Error(f)
			}
		}
	}
}

// put writes values unconditionally.
func (w *small) put(kvs ...any) int64 {
	w.t.Helper()
	c := controlplane.NewChange(1)
	for i := 0; i < len(kvs); i += 2 {
		c.Put(kvs[i].(string), kvs[i+1].(types.Message))
	}
	return w.commit(c.Txn())
}

func (w *small) del(keys ...string) {
	w.t.Helper()
	c := controlplane.NewChange(1)
	for _, k := range keys {
		c.Delete(k)
	}
	w.commit(c.Txn())
}

func (w *small) commit(txn controlplane.Txn) int64 {
	w.t.Helper()
	res, err := w.store.Commit(context.Background(), txn)
	if err != nil || !res.Committed {
		w.t.Fatal(res, err)
	}
	return res.Revision
}

// settle steps the scheduler until it has nothing to do.
func (w *small) settle() {
	w.t.Helper()
	for range 1000 {
		for _, batch := range w.store.Events(w.seen + 1) {
			w.seen = batch.Revision
			w.core.Apply(batch, w.now)
		}
		drafts := w.core.Next(w.now)
		if len(drafts) == 0 {
			return
		}
		for _, d := range drafts {
			res, refused := w.store.Commit(context.Background(), d.Change.Txn())
			w.must(refused)
			w.core.Done(d, res, refused, w.now)
		}
	}
	w.t.Fatal("does not settle")
}

// where returns the phase and node of a task.
func (w *small) where(id string) string {
	t := w.core.View().Task(clusterID("d", id))
	if t == nil || t.Status.V == nil {
		return "pending"
	}
	return fmt.Sprintf("%s on %s", t.Status.V.Phase, t.Status.V.Node)
}

func (w *small) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// later advances the time.
func (w *small) later(d time.Duration) {
	time.Sleep(d) // in the bubble: it costs nothing
	w.now = time.Now()
}

// nodes registers nodes with their capacity.
func (w *small) nodes(capacity q, names ...string) {
	for _, name := range names {
		w.put(controlplane.NodeKey(name), &types.Node{Capacity: types.NewRequests(capacity)}, controlplane.AliveKey(name), &types.Alive{})
	}
	w.settle()
}

// large registers a node with labels and ports.
func (w *small) large(name string, n types.Node) {
	w.put(controlplane.NodeKey(name), &n, controlplane.AliveKey(name), &types.Alive{})
	w.settle()
}

func (w *small) lose(nodes ...string) {
	for _, name := range nodes {
		w.del(controlplane.AliveKey(name))
	}
}

// submission is a task with an id.
func submission(id string, requests q, edits ...func(*types.Task)) controlplane.Submission {
	t := types.Task{Requests: types.NewRequests(requests)}
	for _, edit := range edits {
		edit(&t)
	}
	return controlplane.Submission{ID: id, Task: t, Spec: &types.Spec{Image: "busybox:1"}}
}

// launch submits a task a second after the last one, and lets the scheduler place it.
func (w *small) launch(id string, requests q, edits ...func(*types.Task)) {
	w.t.Helper()
	w.later(time.Second)
	_, err := w.client.Launch(context.Background(), submission(id, requests, edits...))
	w.must(err)
	w.settle()
}

func (w *small) set(name string, capacity types.Quantity, where controlplane.Where) {
	w.t.Helper()
	_, err := w.client.SetResource(context.Background(), name, capacity, where, controlplane.SetOptions{Declare: true})
	w.must(err)
	w.settle()
}

func (w *small) reserve(id string, r types.Reservation, bundles ...q) {
	w.t.Helper()
	w.later(time.Second)
	for _, b := range bundles {
		r.Bundles = append(r.Bundles, types.Bundle{Requests: types.NewRequests(b)})
	}
	w.must(w.client.Reserve(context.Background(), id, r))
	w.settle()
}

// collects directs a task or reservation to collect on nodes, a minute later, as a library does.
func (w *small) collects(id string, on ...string) {
	w.t.Helper()
	w.later(time.Minute)
	to := &types.Collect{On: on}
	if t := w.core.View().Task(clusterID("d", id)); t != nil {
		now := t.Info.V.Full()
		types.UpdateLater(now, func(l *types.Later) { l.Collect = to })
		w.put(controlplane.TaskKey("d", id), now)
	} else {
		now := *w.core.View().Reservations[clusterID("d", id)].Info.V
		now.Collect = to
		w.put(controlplane.ReservationKey("d", id), &now)
	}
	w.settle()
}

// report writes the agent's report on an attempt; the scheduler settles it.
func (w *small) report(id string, r types.Report) {
	w.t.Helper()
	t := w.core.View().Task(clusterID("d", id))
	if t == nil || len(t.Bindings) == 0 {
		w.t.Fatalf("%s is %s", id, w.where(id))
	}
	b := t.Bindings[0]
	r.Binding = b.Info.Create
	w.put(controlplane.ReportKey(b.Node.Name, "d", id, b.Number), &r)
	w.settle()
}

// runs reports that tasks run.
func (w *small) runs(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		w.report(id, types.Report{Phase: types.ReportRunning, Started: w.now.UnixNano()})
	}
}

// ends reports the end of a task.
func (w *small) ends(id string, code int, reason string) {
	w.t.Helper()
	cause := map[string]types.Cause{"out of memory": types.CauseMemory}[reason]
	w.report(id, types.Report{Phase: types.ReportExited, Started: w.now.UnixNano(), Ended: w.now.UnixNano(), ExitCode: code, Reason: reason, Cause: cause})
}

// view is the cluster as a client reads it.
func (w *small) view() *cluster.View {
	w.t.Helper()
	v := cluster.New()
	kvs, revision, err := controlplane.ListAll(context.Background(), w.store, controlplane.ListOptions{Prefix: controlplane.Root})
	w.must(err)
	for _, kv := range kvs {
		_, _, err := v.Apply(controlplane.Event{KV: kv})
		w.must(err)
	}
	v.Reached(revision)
	return v
}

// explain explains a task t, reservation r, job j or node n: kind/id.
func (w *small) explain(what string) why.Explanation {
	w.t.Helper()
	kind, id, _ := strings.Cut(what, "/")
	var x why.Explanation
	var err error
	switch v := w.view(); why.Kind(kind) {
	case why.KindReservation:
		x, err = ExplainReservation(v, clusterID("d", id), w.now)
	case why.KindJob:
		x, err = ExplainJob(v, clusterID("d", id), w.now)
	case why.KindNode:
		x, err = ExplainNode(v, "d", id, w.now)
	default:
		x, err = Explain(v, clusterID("d", id), w.now)
	}
	w.must(err)
	return x
}

// why explains an object from the store.
func (w *small) why(what string) why.Explanation {
	w.t.Helper()
	kind, id, _ := strings.Cut(what, "/")
	x, _, err := Why(context.Background(), w.store, Subject{Kind: why.Kind(kind), Namespace: "d", ID: id}, w.now)
	w.must(err)
	return x
}

// TestWhy compares the explanation of every situation with testdata/why. To see the effect of new
// words: WHY_UPDATE=1 go test -run TestWhy ./scheduler/explain, git diff.
func TestWhy(t *testing.T) {
	all := situations()
	if len(all) < 30 {
		t.Fatalf("there are %d situations", len(all))
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			var got string
			inSmall(t, func(w *small) {
				s.build(w)
				x := w.explain(s.asked())
				if x.Infeasible != s.never {
					t.Errorf("infeasible: %t", x.Infeasible)
				}
				got = rendered(t, x)
				if read := rendered(t, w.why(s.asked())); read != got {
					t.Errorf("of what is read for it, it says\n%s\nand of everything\n%s", read, got)
				}
			})
			compare(t, filepath.Join("testdata", "why", strings.ReplaceAll(s.name, " ", "-")+".golden"), got)
		})
	}
}

// rendered is an explanation as text, then as JSON.
func rendered(t *testing.T, x why.Explanation) string {
	lines := x.Lines(false, action.Action.String)
	if len(lines) > why.MaxLines {
		t.Errorf("%d lines", len(lines))
	}
	data, err := json.MarshalIndent(x, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n") + "\n\n" + string(data) + "\n"
}

func compare(t *testing.T, path, got string) {
	t.Helper()
	if os.Getenv("WHY_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs: got\n%s\nwant\n%s", path, got, want)
	}
}
