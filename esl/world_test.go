package esl_test

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
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// counter is a Keeper that says what it was asked, and does what the test says.
type counter struct {
	// Name tells them apart in a test.
	Name string `json:"name"`

	asked *record
}

// record is what a test knows of its policies.
type record struct {
	mu    sync.Mutex
	times map[string]int
	next  func(name string, s *esl.State) esl.Plan
}

func newRecord(next func(name string, s *esl.State) esl.Plan) *record {
	return &record{times: make(map[string]int), next: next}
}

func (r *record) kinds() esl.Kinds {
	return esl.Builtin().With(
		func() esl.Policy { return &counter{asked: r} },
		func() esl.Policy { return &wide{counter{asked: r}} },
		func() esl.Policy { return &shared{counter: counter{asked: r}} },
		func() esl.Policy { return &watcher{counter: counter{asked: r}} },
		func() esl.Policy { return &paced{counter{asked: r}} },
		func() esl.Policy { return &member{} },
		func() esl.Policy { return &plain{} },
	)
}

// count returns how often one was asked since it was called last.
func (r *record) count(name string) int {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.times[name]
	r.times[name] = 0
	return n
}

func (p *counter) Kind() string           { return "counter" }
func (p *counter) Apply(*esl.Group) error { return nil }
func (p *counter) Next(s *esl.State) esl.Plan {
	p.asked.mu.Lock()
	p.asked.times[p.Name]++
	p.asked.mu.Unlock()
	if p.asked.next == nil {
		return esl.Plan{}
	}
	return p.asked.next(p.Name, s)
}

type wide struct{ counter }

func (*wide) Kind() string { return "wide" }
func (*wide) Wide()        {}

type paced struct{ counter }

func (*paced) Kind() string        { return "paced" }
func (*paced) Pace() time.Duration { return 10 * time.Second }

type watcher struct {
	counter
	On []string `json:"on"`
}

func (*watcher) Kind() string        { return "watcher" }
func (p *watcher) Watches() []string { return p.On }

type shared struct{ counter }

func (*shared) Kind() string { return "shared" }
func (p *shared) Declare(id string) ([]esl.Set, error) {
	return []esl.Set{{Name: id + ".shared", Capacity: esl.One, Where: controlplane.InCluster()}}, nil
}

// plain is one without anything to do while its tasks last.
type plain struct{}

func (*plain) Kind() string           { return "plain" }
func (*plain) Apply(*esl.Group) error { return nil }

// member refers to a shared one.
type member struct {
	Of string `json:"of"`
}

func (*member) Kind() string           { return "member" }
func (*member) Apply(*esl.Group) error { return nil }
func (p *member) Shared() string       { return p.Of }

// world is a store without a cluster: tasks wait, and nothing else happens.
type world struct {
	t     *testing.T
	store *memstore.Store
	jobs  *esl.Client
	asked *record
}

func newWorld(t *testing.T, asked *record) *world {
	w := &world{t: t, store: memstore.New(), asked: asked}
	w.jobs = w.client("d")
	return w
}

func (w *world) client(ns string) *esl.Client {
	w.t.Helper()
	c, err := controlplane.New(w.store, ns)
	if err != nil {
		w.t.Fatal(err)
	}
	jobs := esl.New(c)
	jobs.Kinds = w.asked.kinds()
	return jobs
}

// keep keeps policies until the test ends, or stop is called.
func (w *world) keep(store controlplane.Store, change ...func(*esl.KeepOptions)) (stop func()) {
	opts := esl.KeepOptions{Kinds: w.asked.kinds()}
	for _, f := range change {
		f(&opts)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- esl.Keep(ctx, store, opts) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			w.t.Errorf("Keep ended with %v", err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

// submit submits a job of n tasks with policies.
func (w *world) submit(id string, n int, policies ...esl.Policy) controlplane.Launched {
	w.t.Helper()
	task := controlplane.Submission{Task: types.Task{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}, Spec: &types.Spec{Image: "x"}}
	done, err := w.jobs.Submit(w.t.Context(), esl.Job{ID: id, Tasks: esl.Copies(n, task)}, policies...)
	if err != nil {
		w.t.Fatal(err)
	}
	return done
}

// pool sets a pool.
func (w *world) pool(name string, capacity types.Quantity) {
	w.t.Helper()
	if _, err := w.jobs.SetResource(w.t.Context(), name, capacity, controlplane.InCluster(), controlplane.SetOptions{Declare: true}); err != nil {
		w.t.Fatal(err)
	}
}

// capacity returns that of a pool, -1 if there is none.
func (w *world) capacity(name string) types.Quantity {
	w.t.Helper()
	synctest.Wait()
	page, err := w.store.List(context.Background(), controlplane.ListOptions{Key: controlplane.ResourceKey("d", name, types.ClusterWide)})
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

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// setOwn wants the policy's pool to be of a capacity.
func setOwn(s *esl.State, capacity types.Quantity) esl.Plan {
	if p := s.Pool(s.Own("")); p != nil && p.Capacity() == capacity {
		return esl.Plan{}
	}
	return esl.Plan{Reason: "so it is", Set: []esl.Set{{
		Name: s.Own(""), Capacity: capacity, Where: controlplane.InCluster(), Options: controlplane.SetOptions{Declare: true},
	}}}
}

// put puts a key.
func (w *world) put(key string, m types.Message) {
	w.t.Helper()
	c := controlplane.NewChange(controlplane.NewBatch())
	c.Put(key, m)
	if _, err := w.store.Commit(w.t.Context(), c.Txn()); err != nil {
		w.t.Fatal(err)
	}
}

// view returns the cluster as it is.
func (w *world) view() *cluster.View {
	w.t.Helper()
	synctest.Wait()
	kvs, revision, err := controlplane.ListAll(context.Background(), w.store, controlplane.ListOptions{Prefix: controlplane.Root})
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

func idOf(task string) cluster.ID { return cluster.ID{Namespace: "d", ID: task} }

// why returns what a task waits for.
func (w *world) why(task string) []string {
	w.t.Helper()
	return esl.Why(w.view(), w.asked.kinds(), idOf(task), time.Now())
}

// runs runs something until the test ends, or stop is called.
func runs(t *testing.T, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}
