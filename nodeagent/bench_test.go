package nodeagent_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

const ttl = 15 * time.Second

// flaky is a store that can be out of the agent's reach.
type flaky struct {
	*memstore.Store
	mu   sync.Mutex
	down bool
	// cut ends the watches.
	cut context.CancelFunc
	all context.Context
	// slow is the delay of the answer to a renewal.
	slow time.Duration
	// step is called before and after each commit of the agent; it returns true to crash the agent
	// there.
	step func(after bool) bool
	// sent are the transactions of the agent, in order.
	sent []controlplane.Txn
}

func newFlaky() *flaky {
	f := &flaky{Store: memstore.New()}
	f.all, f.cut = context.WithCancel(context.Background())
	return f
}

// set takes the store out of reach, or back.
func (f *flaky) set(down bool) {
	f.mu.Lock()
	if f.down = down; down {
		f.cut()
	} else {
		f.all, f.cut = context.WithCancel(context.Background())
	}
	f.mu.Unlock()
	synctest.Wait()
}

func (f *flaky) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return types.Errorf(types.Unavailable, "the store is out of reach")
	}
	return nil
}

func (f *flaky) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	if err := f.err(); err != nil {
		return controlplane.Page{}, err
	}
	return f.Store.List(ctx, opts)
}

func (f *flaky) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	if err := f.err(); err != nil {
		return controlplane.Result{}, err
	}
	if f.step != nil && f.step(false) {
		return controlplane.Result{}, types.Errorf(types.Unavailable, "crashed before")
	}
	f.mu.Lock()
	f.sent = append(f.sent, txn)
	f.mu.Unlock()
	res, err := f.Store.Commit(ctx, txn)
	if f.step != nil && f.step(true) {
		return controlplane.Result{}, types.Errorf(types.Unknown, "crashed after")
	}
	return res, err
}

func (f *flaky) RenewLease(ctx context.Context, id controlplane.LeaseID) (time.Duration, error) {
	if err := f.err(); err != nil {
		return 0, err
	}
	got, err := f.Store.RenewLease(ctx, id)
	select {
	case <-time.After(f.slow):
		return got, err
	case <-ctx.Done():
		return 0, types.Errorf(types.Unavailable, "the answer takes too long")
	}
}

func (f *flaky) GrantLease(ctx context.Context, ttl time.Duration) (controlplane.LeaseID, error) {
	if err := f.err(); err != nil {
		return 0, err
	}
	return f.Store.GrantLease(ctx, ttl)
}

func (f *flaky) Watch(ctx context.Context, opts controlplane.WatchOptions) <-chan controlplane.Batch {
	out := make(chan controlplane.Batch)
	f.mu.Lock()
	all, down := f.all, f.down
	f.mu.Unlock()
	go func() {
		defer close(out)
		inner, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(all, cancel)()
		if !down {
			for b := range f.Store.Watch(inner, opts) {
				select {
				case out <- b:
				case <-inner.Done():
				}
			}
		}
		select {
		case out <- controlplane.Batch{Err: types.Errorf(types.Unavailable, "the watch is cut")}:
		case <-ctx.Done():
		}
	}()
	return out
}

// bench is one node: an agent that can crash, its runtime, and the test in the role of the
// scheduler.
type bench struct {
	t       *testing.T
	store   *flaky
	runtime *simruntime.Runtime
	cfg     nodeagent.Config
	digest  string
	began   time.Time

	agent  *nodeagent.Agent
	cancel context.CancelFunc
	done   chan struct{}
}

func newBench(t *testing.T, rt simruntime.Config) *bench {
	b := &bench{t: t, store: newFlaky(), runtime: simruntime.New(rt), began: time.Now()}
	b.cfg = nodeagent.Config{
		API:   http.HandlerFunc(tells),
		Store: b.store, Runtime: b.runtime, Cluster: "c", Node: "n1", TTL: ttl,
		Capacity:  types.NewRequests(map[string]types.Quantity{"cpu": 4000, "memory": 1 << 30}),
		StateDir:  t.TempDir(),
		Logger:    zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)),
		BootClock: func() time.Duration { return time.Since(b.began) }, BootID: "boot",
	}
	spec := &types.Spec{Image: "img", Grace: 4 * time.Second}
	b.digest = controlplane.SpecDigest(spec)
	b.put(controlplane.SpecKey("d", b.digest), spec)
	return b
}

// start starts the agent.
func (b *bench) start() {
	b.t.Helper()
	agent, err := nodeagent.New(b.cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.agent, b.cancel, b.done = agent, cancel, make(chan struct{})
	go func() {
		defer close(b.done)
		if err := agent.Run(ctx); !errors.Is(err, context.Canceled) {
			b.t.Errorf("agent: %v", err)
		}
	}()
	synctest.Wait()
}

// crash ends the agent. Its state stays for the next one.
func (b *bench) crash() {
	b.cancel()
	<-b.done
}

// pass lets time pass.
func (b *bench) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// put writes to the store directly, past all faults.
func (b *bench) put(key string, m types.Message) int64 {
	b.t.Helper()
	c := controlplane.NewChange(1)
	c.Put(key, m)
	res, err := b.store.Store.Commit(context.Background(), c.Txn())
	if err != nil {
		b.t.Fatal(err)
	}
	return res.Revision
}

func (b *bench) delete(keys ...string) {
	b.t.Helper()
	c := controlplane.NewChange(1)
	for _, key := range keys {
		c.Delete(key)
	}
	if _, err := b.store.Store.Commit(context.Background(), c.Txn()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) get(key string) controlplane.KV {
	b.t.Helper()
	page, err := b.store.Store.List(context.Background(), controlplane.ListOptions{Key: key})
	if err != nil {
		b.t.Fatal(err)
	}
	if len(page.KVs) == 0 {
		return controlplane.KV{}
	}
	return page.KVs[0]
}

// session returns the node's session; 0 while it is not alive.
func (b *bench) session() int64 { return b.get(controlplane.AliveKey("n1")).CreateRevision }

// bind binds attempt 1 of a task, and returns the id of its container.
func (b *bench) bind(task string, edit ...func(*types.Binding)) string {
	b.t.Helper()
	x := &types.Binding{Session: b.session(), Spec: b.digest, Holds: []types.Holding{{Resource: types.CPU, Amount: 500}}}
	for _, f := range edit {
		f(x)
	}
	return containerID(task, b.put(controlplane.BindingKey("n1", "d", task, 1), x))
}

// runs makes a binding use another spec than the default.
func (b *bench) runs(edit func(*types.Spec)) func(*types.Binding) {
	b.t.Helper()
	spec := &types.Spec{Image: "img", Grace: 4 * time.Second}
	edit(spec)
	digest := controlplane.SpecDigest(spec)
	b.put(controlplane.SpecKey("d", digest), spec)
	return func(x *types.Binding) { x.Spec = digest }
}

func containerID(task string, revision int64) string {
	return nodeagent.ContainerID(nodeagent.Attempt{Cluster: "c", Node: "n1", Namespace: "d", Task: task, Number: 1, Revision: revision})
}

// stop adds a stop to a binding.
func (b *bench) stop(task string, stop types.Stop) {
	b.t.Helper()
	key := controlplane.BindingKey("n1", "d", task, 1)
	var x types.Binding
	if err := types.Decode(b.get(key).Value, &x); err != nil {
		b.t.Fatal(err)
	}
	x.Stop = &stop
	b.put(key, &x)
}

// report returns the report of a task; its phase is empty if there is none.
func (b *bench) report(task string) types.Report {
	b.t.Helper()
	var r types.Report
	if kv := b.get(controlplane.ReportKey("n1", "d", task, 1)); kv.Key != "" {
		if err := types.Decode(kv.Value, &r); err != nil {
			b.t.Fatal(err)
		}
	}
	return r
}

// release deletes a binding as a scheduler does after the reported end of a task or the loss of its
// node.
func (b *bench) release(task string) {
	b.delete(controlplane.BindingKey("n1", "d", task, 1), controlplane.ReportKey("n1", "d", task, 1))
}

// expect checks the phase of a task's report.
func (b *bench) expect(task string, want types.ReportPhase) types.Report {
	b.t.Helper()
	r := b.report(task)
	if r.Phase != want {
		b.t.Fatalf("%s is reported %q (%s), want %q", task, r.Phase, r.Reason, want)
	}
	return r
}

// alive checks the number of running processes.
func (b *bench) alive(want int) {
	b.t.Helper()
	if got := b.runtime.Running(); len(got) != want {
		b.t.Fatalf("%v run, want %d", got, want)
	}
}

// left returns the number of containers.
func (b *bench) left() int {
	b.t.Helper()
	list, err := b.runtime.List(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	return len(list)
}

// honest checks that every report was stored while its binding existed.
func (b *bench) honest() {
	b.t.Helper()
	created := make(map[controlplane.Key]int64)
	for _, batch := range b.store.Events(2) {
		for _, e := range batch.Events {
			k, _ := controlplane.Parse(e.Key)
			about := k
			about.Kind = controlplane.Bindings
			var r types.Report
			switch {
			case k.Kind == controlplane.Bindings:
				created[k] = e.CreateRevision
			case k.Kind != controlplane.Reports || e.Delete:
			case types.Decode(e.Value, &r) != nil || r.Binding != created[about]:
				b.t.Errorf("at revision %d, a report about binding %d is stored, and the binding there is %d", batch.Revision, r.Binding, created[about])
			}
		}
	}
}

// once checks that no process ran twice.
func (b *bench) once() {
	b.t.Helper()
	for id, n := range b.runtime.Runs() {
		if n != 1 {
			b.t.Errorf("%s ran %d times", id, n)
		}
	}
}
