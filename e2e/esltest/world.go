package esltest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/keep"
	"github.com/escher-sched/escher/types"
)

// Counter is a Controller that records its calls, and does what the test says.
type Counter struct {
	// Name distinguishes counters in a test.
	Name string `json:"name"`

	asked *Record
}

// Record is the record of a test's policies.
type Record struct {
	mu    sync.Mutex
	times map[string]int
	next  func(name string, s *esl.State) esl.Plan
	wants map[string]time.Duration
}

// Wants sets the nodes that Measuring policies want to be measured. It is called before they run.
func (r *Record) Wants(nodes map[string]time.Duration) { r.wants = nodes }

func NewRecord(next func(name string, s *esl.State) esl.Plan) *Record {
	return &Record{times: make(map[string]int), next: next}
}

func (r *Record) Kinds() esl.Kinds {
	return builtin.Kinds().With(
		func() esl.Policy { return &Counter{asked: r} },
		func() esl.Policy { return &Wide{Counter{asked: r}} },
		func() esl.Policy { return &Shared{Counter: Counter{asked: r}} },
		func() esl.Policy { return &Watcher{Counter: Counter{asked: r}} },
		func() esl.Policy { return &Paced{Counter{asked: r}} },
		func() esl.Policy { return &Measuring{Counter{asked: r}} },
		func() esl.Policy { return &Plain{} },
	)
}

// Count returns the number of calls of a counter since Count was last called.
func (r *Record) Count(name string) int {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.times[name]
	r.times[name] = 0
	return n
}

func (p *Counter) Kind() string { return "counter" }

func (p *Counter) Apply(*esl.Group) error { return nil }

func (p *Counter) Next(s *esl.State) esl.Plan {
	p.asked.mu.Lock()
	p.asked.times[p.Name]++
	p.asked.mu.Unlock()
	if p.asked.next == nil {
		return esl.Plan{}
	}
	return p.asked.next(p.Name, s)
}

type Wide struct{ Counter }

func (*Wide) Kind() string { return "wide" }

func (*Wide) ClusterScoped() {}

type Paced struct{ Counter }

func (*Paced) Kind() string { return "paced" }

func (*Paced) Pace() time.Duration { return 10 * time.Second }

// Measuring wants nodes to be measured: see Record.Wants.
type Measuring struct{ Counter }

func (*Measuring) Kind() string { return "measuring" }

func (p *Measuring) Measures(*esl.State) map[string]time.Duration { return p.asked.wants }

type Watcher struct {
	Counter
	On []string `json:"on"`
}

func (*Watcher) Kind() string { return "watcher" }

func (p *Watcher) Watches() []string { return p.On }

type Shared struct{ Counter }

func (*Shared) Kind() string { return "shared" }

func (*Shared) Use(*esl.Group, esl.Use) error { return nil }

func (p *Shared) Declare(id string) ([]controlplane.Resource, error) {
	return []controlplane.Resource{{Name: id + ".shared", Capacity: esl.One, Where: controlplane.InCluster()}}, nil
}

// Plain is a policy without work while its tasks last.
type Plain struct{}

func (*Plain) Kind() string { return "plain" }

func (*Plain) Apply(*esl.Group) error { return nil }

// World is a store without a cluster: tasks wait, and nothing else happens.
type World struct {
	t     *testing.T
	Store *memstore.Store
	Jobs  *esl.Client
	Asked *Record
}

func NewWorld(t *testing.T, asked *Record) *World {
	w := &World{t: t, Store: memstore.New(), Asked: asked}
	w.Jobs = w.Client("d")
	return w
}

func (w *World) Client(ns string) *esl.Client {
	w.t.Helper()
	c, err := controlplane.New(w.Store, ns)
	if err != nil {
		w.t.Fatal(err)
	}
	jobs := builtin.New(c)
	jobs.Kinds = w.Asked.Kinds()
	return jobs
}

// Keep runs policies until the test ends, or stop is called.
func (w *World) Keep(store controlplane.Store, change ...func(*keep.Options)) (stop func()) {
	opts := keep.Options{Kinds: w.Asked.Kinds()}
	for _, f := range change {
		f(&opts)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- keep.Run(ctx, store, opts) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			w.t.Errorf("Keep ended with %v", err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

// Submit submits a job of n tasks with policies.
func (w *World) Submit(id string, n int, policies ...esl.Policy) controlplane.Launched {
	w.t.Helper()
	task := controlplane.Submission{Task: types.Task{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}, Spec: &types.Spec{Image: "x"}}
	done, err := w.Jobs.Submit(w.t.Context(), controlplane.Job{ID: id, Tasks: esl.Copies(n, task)}, policies...)
	if err != nil {
		w.t.Fatal(err)
	}
	return done
}

// Pool sets a pool.
func (w *World) Pool(name string, capacity types.Quantity) {
	w.t.Helper()
	if _, err := w.Jobs.SetResource(w.t.Context(), name, capacity, controlplane.InCluster(), controlplane.SetOptions{Declare: true}); err != nil {
		w.t.Fatal(err)
	}
}

// Capacity returns the capacity of a pool; -1 if there is none.
func (w *World) Capacity(name string) types.Quantity {
	w.t.Helper()
	synctest.Wait()
	page, err := w.Store.List(context.Background(), controlplane.ListOptions{Key: controlplane.ResourceKey("d", name, types.ClusterWide)})
	if err != nil {
		w.t.Fatal(err)
	}
	if len(page.KVs) == 0 {
		return -1
	}
	var r types.Resource
	if err := types.Decode(page.KVs[0].Value, &r); err != nil {
		w.t.Fatal(err)
	}
	return r.Capacity
}

// Pass advances the time.
func Pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// SetOwn is a plan that gives the policy's pool a capacity.
func SetOwn(s *esl.State, capacity types.Quantity) esl.Plan {
	if p := s.Pool(s.Own("")); p != nil && p.Capacity() == capacity {
		return esl.Plan{}
	}
	return esl.Plan{Reason: "so it is", Set: []controlplane.Resource{{
		Name: s.Own(""), Capacity: capacity, Where: controlplane.InCluster(), Options: controlplane.SetOptions{Declare: true},
	}}}
}

// Put puts a key.
func (w *World) Put(key string, m types.Message) {
	w.t.Helper()
	c := controlplane.NewChange(controlplane.NewBatch())
	c.Put(key, m)
	if _, err := w.Store.Commit(w.t.Context(), c.Txn()); err != nil {
		w.t.Fatal(err)
	}
}

// Snapshot returns the current cluster.
func (w *World) Snapshot() *cluster.View {
	w.t.Helper()
	synctest.Wait()
	kvs, revision, err := controlplane.ListAll(context.Background(), w.Store, controlplane.ListOptions{Prefix: controlplane.Root})
	if err != nil {
		w.t.Fatal(err)
	}
	v := cluster.New()
	for _, kv := range kvs {
		if _, _, err := v.Apply(controlplane.Event{KV: kv}); err != nil {
			w.t.Fatal(err)
		}
	}
	v.Reached(revision)
	return v
}

func IDOf(task string) cluster.ID { return cluster.ID{Namespace: "d", ID: task} }

// Why returns what a task waits for.
func (w *World) Why(task string) []string {
	w.t.Helper()
	return why.Summaries(esl.Why(w.Snapshot(), w.Asked.Kinds(), IDOf(task), time.Now()))
}
