// Package collecting tests collections over time: a scheduler and the library esl/collect on a
// store in memory, stepped by hand, with the audit of every revision.
package collecting

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/esl/collect"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/schedulertest"
	"github.com/escher-sched/escher/types"
)

// bench is one core and the library on a store in memory.
type bench struct {
	t     *testing.T
	store *memstore.Store
	core  *scheduler.Core
	audit *audit.Checker
	seen  int64
	now   time.Time

	view    *cluster.View
	library *collect.State
	again   time.Time
}

// stock are the limits of a default etcd.
var stock = controlplane.Limits{Ops: 128, Bytes: 3 << 19}

// searchEvery is the least time between two searches, of the core and of the library.
const searchEvery = time.Second

// The least time without progress, in multiples of the wait, before a collection leaves a node, and
// the most shapes for which one pass searches all nodes.
const (
	patience       = 10
	triesPerSearch = 16
)

// q is the quantities of a request vector.
type q = map[string]types.Quantity

func of(r types.DeviceRequest) func(*types.Task) {
	r.Resource = "gpu"
	return func(t *types.Task) { t.Devices = append(t.Devices, r) }
}

// held are the devices that a task holds.
func (b *bench) held(id string) string {
	var out []string
	if t := b.core.View().Task(clusterID("d", id)); t != nil && len(t.Bindings) > 0 {
		for _, h := range t.Bindings[0].Info.V.Holds {
			for _, d := range h.Devices {
				out = append(out, d.ID)
			}
		}
	}
	return strings.Join(out, " ")
}

// config is that of a bench.
type config struct {
	scheduler.Config
	after time.Duration
}

func newBench(t *testing.T, cfg config) *bench {
	t.Helper()
	cfg.Gather, cfg.FoldFrom = 1, 1 // a test has little work
	b := &bench{
		t: t, store: memstore.New(), core: scheduler.New(cfg.Config), audit: audit.NewChecker(), now: time.Unix(1000, 0),
	}
	b.restart(cfg.after)
	t.Cleanup(b.check)
	return b
}

func newLimitedBench(t *testing.T, limits controlplane.Limits, cfg config) *bench {
	t.Helper()
	cfg.Limits = limits
	b := newBench(t, cfg)
	b.store = memstore.New(memstore.WithLimits(limits))
	return b
}

// newAging is a bench in which collections begin after a second.
func newAging(t *testing.T) *bench {
	t.Helper()
	return newBench(t, config{after: time.Second})
}

// restart lets another server continue, which knows only what is stored.
func (b *bench) restart(after time.Duration) {
	b.library, b.view = collect.New(collect.Config{After: after}), cluster.New()
}

// check passes every revision to the audit.
func (b *bench) check() {
	for _, batch := range b.store.Events(b.audit.Revision() + 1) {
		for _, f := range b.audit.Apply(batch) {
			if f.Guarantee != audit.JobWhole && f.Guarantee != audit.SpecKept { // jobs come before their tasks, and there are no specs
				b.t.Error(f)
			}
		}
	}
}

// put writes values unconditionally.
func (b *bench) put(kvs ...any) {
	b.t.Helper()
	c := controlplane.NewChange(1)
	for i := 0; i < len(kvs); i += 2 {
		c.Put(kvs[i].(string), kvs[i+1].(types.Message))
	}
	b.commitChange(c)
}

func (b *bench) del(keys ...string) {
	b.t.Helper()
	c := controlplane.NewChange(1)
	for _, k := range keys {
		c.Delete(k)
	}
	b.commitChange(c)
}

func (b *bench) commitChange(c *controlplane.Change) {
	b.t.Helper()
	if res, err := b.store.Commit(context.Background(), c.Txn()); err != nil || !res.Committed {
		b.t.Fatal(res, err)
	}
}

func (b *bench) node(name string, cpu types.Quantity) {
	b.put(controlplane.NodeKey(name), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": cpu})},
		controlplane.AliveKey(name), &types.Alive{})
}

func (b *bench) task(id string, requests map[string]types.Quantity, edit ...func(*types.Task)) {
	t := &types.Task{Requests: types.NewRequests(requests), Submitted: b.now.UnixNano()}
	for _, f := range edit {
		f(t)
	}
	b.put(controlplane.TaskKey("d", id), t)
}

// see passes everything stored to the core.
func (b *bench) see() {
	b.t.Helper()
	for _, batch := range b.store.Events(b.seen + 1) {
		b.seen = batch.Revision
		b.core.Apply(batch, b.now)
	}
}

// direct lets the library decide, and reports whether it changed anything.
func (b *bench) direct() bool {
	b.t.Helper()
	for _, batch := range b.store.Events(b.view.Revision + 1) {
		for _, e := range batch.Events {
			if key, changed, err := b.view.Apply(e); err == nil && changed {
				b.library.Touch(b.view, key)
			}
		}
		b.view.Reached(batch.Revision)
	}
	plan := b.library.Next(b.view, b.now)
	if b.again = plan.Again; len(plan.Changes) == 0 {
		return false
	}
	c := controlplane.NewChange(2)
	plan.Write(b.view, c)
	b.commitChange(c)
	return true
}

// settle steps the core and the library until they have nothing to do.
func (b *bench) settle() {
	b.t.Helper()
	for i := 0; ; i++ {
		if i > 1000 {
			b.t.Fatal("does not settle")
		}
		b.see()
		drafts := b.core.Next(b.now)
		if len(drafts) == 0 && !b.direct() {
			return
		}
		for _, d := range drafts {
			res, refused := b.store.Commit(context.Background(), d.Change.Txn())
			if refused != nil {
				b.t.Fatal(refused)
			}
			b.core.Done(d, res, refused, b.now)
		}
	}
}

// later advances the time and settles.
func (b *bench) later(d time.Duration) {
	b.t.Helper()
	b.now = b.now.Add(d)
	b.settle()
}

// wake is when the core or the library may have work without a further change; zero means never.
func (b *bench) wake() time.Time {
	if at := b.core.Wake(); b.again.IsZero() || !at.IsZero() && at.Before(b.again) {
		return at
	}
	return b.again
}

// commit commits the one draft that the core makes, and returns the answer.
func (b *bench) commit() (*scheduler.Transaction, controlplane.Result) {
	b.t.Helper()
	drafts := b.core.Next(b.now)
	if len(drafts) != 1 {
		b.t.Fatalf("%d drafts", len(drafts))
	}
	res, err := b.store.Commit(context.Background(), drafts[0].Change.Txn())
	if err != nil {
		b.t.Fatal(err)
	}
	return drafts[0], res
}

func (b *bench) done(d *scheduler.Transaction, res controlplane.Result) {
	b.t.Helper()
	b.core.Done(d, res, nil, b.now)
}

// exited reports the end of the attempts of a task.
func (b *bench) exited(id string) {
	b.t.Helper()
	b.see()
	for _, x := range b.core.View().Task(clusterID("d", id)).Bindings {
		b.put(controlplane.ReportKey(x.Node.Name, "d", id, x.Number), &types.Report{Phase: types.ReportExited, Binding: x.Info.Create})
	}
}

// release ends an exited attempt, as another scheduler would.
func (b *bench) release(id string) {
	b.t.Helper()
	b.see()
	d := draft.New(b.core.View(), b.store.Limits(), 7)
	task := b.core.View().Task(clusterID("d", id))
	d.Act(draft.EndExited, task, task.Bindings[0], b.now)
	d.Seal()
	if res, err := b.store.Commit(b.t.Context(), d.Change.Txn()); err != nil || !res.Committed {
		b.t.Fatal(res, err)
	}
}

func (b *bench) where(id string) string {
	t := b.core.View().Task(clusterID("d", id))
	if t == nil || t.Status.V == nil {
		return "pending"
	}
	return fmt.Sprintf("%s on %s", t.Status.V.Phase, t.Status.V.Node)
}

func (b *bench) expect(id, want string) {
	b.t.Helper()
	if got := b.where(id); got != want {
		b.t.Errorf("%s is %s, want %s", id, got, want)
	}
}

// grantAt is the grant of a reservation or task; an empty one if there is none.
func (b *bench) grantAt(id string) *types.Grant {
	if r := b.core.View().Reservations[clusterID("d", id)]; r != nil && r.Grant.V != nil {
		return r.Grant.V
	}
	return &types.Grant{}
}

// grant is that of reservation r.
func (b *bench) grant() *types.Grant { return b.grantAt("r") }

func (b *bench) isGranted(id string) bool { return b.grantAt(id).Phase == types.Granted }

// amountHeld is the cpu that a grant holds, on all nodes.
func amountHeld(g *types.Grant) (sum types.Quantity) {
	for _, at := range g.Nodes {
		sum += grants.HeldOf(at.Holds, "cpu")
	}
	return sum
}

func clusterID(ns, id string) cluster.ID { return cluster.ID{Namespace: ns, ID: id} }

func ofJob(job string) func(*types.Task) { return func(t *types.Task) { t.Job = job } }

func accumulates(t *types.Task) { t.Accumulate = true }

func bundleOf(amounts map[string]types.Quantity) types.Bundle {
	return types.Bundle{Requests: types.NewRequests(amounts)}
}

// bundle is a bundle of GPUs.
func bundle(amount types.Quantity, r types.DeviceRequest) types.Bundle {
	r.Resource = "gpu"
	return types.Bundle{Requests: types.NewRequests(map[string]types.Quantity{"gpu": amount}), Devices: []types.DeviceRequest{r}}
}

// onNode is a bundle for one node.
func onNode(node string, x types.Bundle) types.Bundle {
	x.Node = node
	return x
}

// large is a reservation of a whole node of 1 cpu that may accumulate.
func (b *bench) large() *types.Reservation {
	return &types.Reservation{
		Accumulate: true, Submitted: b.now.UnixNano(),
		Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}},
	}
}

// reserve submits bundles that may accumulate, and lets that begin.
func (b *bench) reserve(bundles ...types.Bundle) {
	b.t.Helper()
	b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{Accumulate: true, Submitted: b.now.UnixNano(), Bundles: bundles})
	b.settle()
	b.later(2 * time.Second)
}

// lock reserves a number of bundles of one core.
func (b *bench) lock(id string, bundles int, edit ...func(*types.Reservation)) {
	b.t.Helper()
	r := &types.Reservation{Submitted: b.now.UnixNano()}
	for range bundles {
		r.Bundles = append(r.Bundles, bundleOf(map[string]types.Quantity{"cpu": 1000}))
	}
	for _, f := range edit {
		f(r)
	}
	b.put(controlplane.ReservationKey("d", id), r)
}

// filled is two nodes of 1000, filled by four tasks of 500: a1, a2 on n1, b1, b2 on n2.
func filled(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, config{})
	for i, node := range []string{"n1", "n2"} {
		b.node(node, 1000)
		for n := range 2 {
			b.task(fmt.Sprintf("%c%d", 'a'+i, n+1), map[string]types.Quantity{"cpu": 500, "node/" + node: 1})
		}
	}
	b.settle()
	return b
}

// collectsNow makes a reservation that collects for a job with the given amount of each node.
func (b *bench) collectsNow(id, job string, of map[string]types.Quantity) {
	b.t.Helper()
	r := &types.Reservation{Job: job, Submitted: b.now.UnixNano()}
	for _, node := range []string{"n1", "n2"} {
		if q := of[node]; q > 0 {
			r.Bundles = append(r.Bundles, onNode(node, bundleOf(map[string]types.Quantity{"cpu": q})))
		}
	}
	r.Collect = types.NewCollect(r.Bundles, true)
	b.put(controlplane.ReservationKey("d", id), r)
	b.settle()
}

// gpusOn gives a node the described devices.
func (b *bench) gpusOn(node string, devices ...string) {
	b.t.Helper()
	d := &types.Devices{}
	for i, text := range devices {
		d.Devices = append(d.Devices, schedulertest.GPU(i, text))
	}
	b.putDevices(node, d)
	if b.core.View().Nodes[node] == nil {
		b.put(controlplane.AliveKey(node), &types.Alive{})
	}
}
