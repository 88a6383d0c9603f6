package nodeapi_test

import (
	"context"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/measured"
)

// listed counts the reads of a store.
type listed struct {
	*memstore.Store
	reads atomic.Int32
}

func (s *listed) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	s.reads.Add(1)
	return s.Store.List(ctx, opts)
}

// registered puts the keys of node n.
func (s *listed) registered(t testing.TB, url, token string) {
	t.Helper()
	change := controlplane.NewChange(controlplane.NewBatch())
	change.Put(controlplane.NodeKey("n"), &types.Node{Address: url})
	change.Put(controlplane.AliveKey("n"), &types.Alive{})
	change.Put(controlplane.TokenKey("n"), &types.Token{Token: token})
	if _, err := s.Commit(t.Context(), change.Txn()); err != nil {
		t.Fatal(err)
	}
}

// TestReader reads the address and token of a node once, and again after an error.
func TestReader(t *testing.T) {
	w, store := newWorld(t), &listed{Store: memstore.New()}
	store.registered(t, w.url, "of an earlier session")
	r := nodeapi.Reader{Dialer: nodeapi.Dialer{Store: store}}
	if _, err := r.Measured(t.Context(), "n", time.Time{}); !types.Is(err, types.Unavailable) {
		t.Errorf("with a wrong token: %v", err)
	}
	store.registered(t, w.url, token)
	store.reads.Store(0)
	for range 5 {
		got, err := r.Measured(t.Context(), "n", time.Time{})
		if err != nil || len(got.Tasks) != 1 || got.Machine == nil || *got.Machine.CPUMilli != 1500 {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if n := store.reads.Load(); n != 3 { // node, session, token
		t.Errorf("the store is read %d times", n)
	}
	if _, err := r.Measured(t.Context(), "another", time.Time{}); !types.Is(err, types.NotFound) {
		t.Errorf("a node that is none: %v", err)
	}
}

// many is a node with that many tasks.
type many []measured.Task

func (m many) Tasks(context.Context, time.Time) []measured.Task { return m }

func (m many) Node(context.Context, time.Time) measured.Node {
	return measured.Node{Node: "n", Use: m[0].Use, Tasks: measured.SumOf(m)}
}

// BenchmarkReader is an answer of a node with ten tasks, with the work of the node.
func BenchmarkReader(b *testing.B) {
	stall := &measured.Stall{SomePercent10s: 1.5, SomeSeconds: 2.5}
	use := measured.Use{
		At: time.Now(), OverSeconds: 5, CPUSeconds: new(1.5), CPUMilli: new(250.5), ThrottledSeconds: new(0.0), MemoryBytes: new(int64(1 << 30)),
		MemoryRSSBytes: new(int64(1 << 30)), MemoryLimitBytes: new(int64(2 << 30)), Processes: new(int64(5)), Pressure: &measured.Pressure{CPU: stall, Memory: stall, IO: stall},
	}
	var tasks many
	for range 10 {
		tasks = append(tasks, measured.Task{Namespace: "default", Task: "train-x7k2-17", Attempt: 1, Use: use})
	}
	srv := httptest.NewServer(nodeapi.Handler(nodeapi.Config{Agent: &agent{token: token}, Usage: tasks, Say: said}))
	defer srv.Close()
	store := &listed{Store: memstore.New()}
	store.registered(b, srv.URL, token)
	r := nodeapi.Reader{Dialer: nodeapi.Dialer{Store: store}}
	for b.Loop() {
		if got, err := r.Measured(b.Context(), "n", time.Time{}); err != nil || len(got.Tasks) != 10 {
			b.Fatal(err)
		}
	}
}
