package controlplane_test

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/ids"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// world is a store with a client of namespace team.
type world struct {
	*controlplane.Client
	t     *testing.T
	store *memstore.Store
	lossy *lossy
}

func newWorld(t *testing.T, opts ...memstore.Option) *world {
	t.Helper()
	w := &world{t: t, store: memstore.New(opts...)}
	w.lossy = &lossy{Store: w.store}
	c, err := controlplane.New(w.lossy, "team")
	if err != nil {
		t.Fatal(err)
	}
	w.Client = c
	return w
}

// put writes a value without a condition.
func (w *world) put(key string, m types.Message) int64 {
	w.t.Helper()
	return w.commit(controlplane.Op{Key: key, Value: types.Encode(controlplane.NewBatch(), m)})
}

func (w *world) delete(key string) int64 {
	w.t.Helper()
	return w.commit(controlplane.Op{Key: key, Delete: true})
}

func (w *world) commit(ops ...controlplane.Op) int64 {
	w.t.Helper()
	res, err := w.store.Commit(context.Background(), controlplane.Txn{Ops: ops})
	if err != nil || !res.Committed {
		w.t.Fatalf("%+v, %v", res, err)
	}
	return res.Revision
}

// node registers live nodes, with labels such as rack=r1, and returns the session
// of the last.
func (w *world) node(name string, labels ...string) int64 {
	w.t.Helper()
	n := &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000, "memory": 8 << 30})}
	for _, l := range labels {
		k, v, _ := strings.Cut(l, "=")
		n.Labels = append(n.Labels, types.Label{Name: k, Value: v})
	}
	w.put(controlplane.NodeKey(name), n)
	return w.put(controlplane.AliveKey(name), &types.Alive{TTLSeconds: 15})
}

// get reads a key into m; false means that it is absent.
func (w *world) get(key string, m types.Message) bool {
	w.t.Helper()
	page, err := w.store.List(context.Background(), controlplane.ListOptions{Key: key})
	if err != nil {
		w.t.Fatal(err)
	}
	if len(page.KVs) == 0 {
		return false
	}
	if err := types.Decode(page.KVs[0].Value, m); err != nil {
		w.t.Fatal(err)
	}
	return true
}

// has returns the locations of a resource of the namespace, with their capacities.
func (w *world) has(name string) map[string]types.Quantity {
	w.t.Helper()
	page, err := w.store.List(context.Background(), controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Resources, "team", name)})
	if err != nil {
		w.t.Fatal(err)
	}
	out := make(map[string]types.Quantity)
	for _, kv := range page.KVs {
		k, _ := controlplane.Parse(kv.Key)
		var r types.Resource
		if err := types.Decode(kv.Value, &r); err != nil {
			w.t.Fatal(err)
		}
		out[k.Where] = r.Capacity
	}
	return out
}

type caps map[string]types.Quantity

func (w *world) wantHas(name string, want caps) {
	w.t.Helper()
	if got := w.has(name); !reflect.DeepEqual(got, map[string]types.Quantity(want)) {
		w.t.Errorf("%s is %v, want %v", name, got, want)
	}
}

// refused runs f and checks that its error has the class and contains the texts, and that f wrote
// nothing.
func (w *world) refused(class types.Class, f func() error, texts ...string) {
	w.t.Helper()
	before := w.store.Revision()
	err := f()
	if !types.Is(err, class) {
		w.t.Errorf("got %v of class %s, want %s", err, types.ClassOf(err), class)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			w.t.Errorf("%q does not say %q", err, text)
		}
	}
	if after := w.store.Revision(); after != before {
		w.t.Errorf("%v, and yet something was written: revision %d, was %d", err, after, before)
	}
}

// fate is the outcome of a commit.
type fate int

const (
	answered    fate = iota
	lost             // committed, and not answered
	forgotten        // not committed, and not answered
	late             // committed after the next commit, and not answered
	unavailable      // not sent
)

// lossy is a store whose next commits have the fates given.
type lossy struct {
	*memstore.Store

	mu      sync.Mutex
	fates   []fate
	pending []controlplane.Txn
	// before is called before each commit reaches the store.
	before func(n int)
	n      int
}

func (l *lossy) next(fates ...fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fates = append(l.fates, fates...)
}

// commits returns the number of commits since its last call.
func (l *lossy) commits() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.n
	l.n = 0
	return n
}

func (l *lossy) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	l.mu.Lock()
	l.n++
	n, before, f := l.n, l.before, answered
	if len(l.fates) > 0 {
		f, l.fates = l.fates[0], l.fates[1:]
	}
	pending := l.pending
	l.pending = nil
	l.mu.Unlock()
	if before != nil {
		before(n)
	}
	unknown := types.Errorf(types.Unknown, "injected: no answer")
	switch f {
	case forgotten:
		return controlplane.Result{}, unknown
	case unavailable:
		return controlplane.Result{}, types.Errorf(types.Unavailable, "injected: not reached")
	case late:
		l.mu.Lock()
		l.pending = append(l.pending, txn)
		l.mu.Unlock()
		return controlplane.Result{}, unknown
	}
	res, err := l.Store.Commit(ctx, txn)
	for _, p := range pending {
		if _, err := l.Store.Commit(ctx, p); err != nil {
			return res, err
		}
	}
	if f == lost && err == nil {
		return controlplane.Result{}, unknown
	}
	return res, err
}

func TestNew(t *testing.T) {
	for _, ns := range []string{"", "a/b", "a b", strings.Repeat("x", 64)} {
		if _, err := controlplane.New(memstore.New(), ns); !types.Is(err, types.Invalid) {
			t.Errorf("%q: %v", ns, err)
		}
	}
	c, err := controlplane.New(memstore.New(), "team")
	if err != nil || c.Namespace() != "team" {
		t.Errorf("%v, %v", c.Namespace(), err)
	}
}

func TestNewID(t *testing.T) {
	seen := make(map[string]bool)
	for _, name := range []string{"web", "", strings.Repeat("x", 63), strings.Repeat("x", 51) + "-yyyyyyyyyyy", "web"} {
		id := ids.New(name)
		if err := types.ValidateName("id", id); err != nil || seen[id] {
			t.Errorf("%q: %s, seen before: %v, %v", name, id, seen[id], err)
		}
		seen[id] = true
	}
}
