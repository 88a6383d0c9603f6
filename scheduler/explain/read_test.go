package explain

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/scheduler/schedulertest"
	"github.com/escher-sched/escher/types"
)

// counted is a store that counts the keys read, and may fail.
type counted struct {
	*memstore.Store
	keys, lists int
	fail        func(controlplane.ListOptions) error
}

func (s *counted) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	if s.fail != nil {
		if err := s.fail(opts); err != nil {
			return controlplane.Page{}, err
		}
	}
	page, err := s.Store.List(ctx, opts)
	s.lists++
	s.keys += len(page.KVs)
	return page, err
}

// crowded returns a store of full nodes with bound tasks and one task, a/large, that waits for
// capacity. It also returns the number of keys.
func crowded(tb testing.TB, nodes, tasks int) (*memstore.Store, int) {
	tb.Helper()
	store := memstore.New(memstore.WithLimits(controlplane.Limits{Ops: 1 << 20, Bytes: 1 << 30}))
	c := controlplane.NewChange(1)
	keys := 0
	put := func(key string, m types.Message) {
		c.Put(key, m)
		if keys++; keys%10_000 == 0 {
			commit(tb, store, c)
			c = controlplane.NewChange(1)
		}
	}
	each := (tasks + nodes - 1) / nodes
	for i := range nodes {
		name := fmt.Sprintf("n%05d", i)
		put(controlplane.NodeKey(name), &types.Node{Capacity: schedulertest.Vector(types.Quantity(each)*1000+500, 0)})
		put(controlplane.AliveKey(name), &types.Alive{})
		put(controlplane.AllocatedKey(name), &types.Allocated{Holds: []types.Holding{{Resource: types.CPU, Amount: types.Quantity(each) * 1000}}})
	}
	for i := range tasks {
		id, node := fmt.Sprintf("t%06d", i), fmt.Sprintf("n%05d", i%nodes)
		put(controlplane.TaskKey("a", id), &types.Task{Requests: schedulertest.Vector(1000, 0), Submitted: int64(i)})
		put(controlplane.StatusKey("a", id), &types.Status{Phase: types.Running, Node: node, Attempt: 1})
		put(controlplane.BindingKey(node, "a", id, 1), &types.Binding{Holds: []types.Holding{{Resource: types.CPU, Amount: 1000}}})
	}
	put(controlplane.TaskKey("a", "large"), &types.Task{Requests: schedulertest.Vector(1000, 0), Submitted: 1 << 40})
	commit(tb, store, c)
	return store, keys
}

func commit(tb testing.TB, store controlplane.Store, c *controlplane.Change) {
	tb.Helper()
	if res, err := store.Commit(context.Background(), c.Txn()); err != nil || !res.Committed {
		tb.Fatal(res, err)
	}
}

// wholeView reads everything.
func wholeView(tb testing.TB, store controlplane.Store) *cluster.View {
	tb.Helper()
	v := cluster.New()
	kvs, revision, err := controlplane.ListAll(context.Background(), store, controlplane.ListOptions{Prefix: controlplane.Root})
	if err != nil {
		tb.Fatal(err)
	}
	for _, kv := range kvs {
		if _, _, err := v.Apply(controlplane.Event{KV: kv}); err != nil {
			tb.Fatal(err)
		}
	}
	v.Reached(revision)
	return v
}

func large() Subject { return Subject{why.KindTask, "a", "large"} }

// TestWhyReadsLittle: with many tasks, Why reads the nodes and the bindings of the nearest ones.
// The answer equals that of a full read, except for the facts it reports as omitted.
func TestWhyReadsLittle(t *testing.T) {
	const nodes = 500
	store, all := crowded(t, nodes, readAtMost+1000)
	s := &counted{Store: store}
	got, _, err := Why(t.Context(), s, large(), time.Unix(0, 1<<41))
	if err != nil {
		t.Fatal(err)
	}
	want, err := Explain(wholeView(t, store), cluster.ID{Namespace: "a", ID: "large"}, time.Unix(0, 1<<41))
	if err != nil {
		t.Fatal(err)
	}
	// The keys counted to detect a too large range count too.
	if most := 3*nodes + 3*5*50 + readAtMost + 1; s.keys > most || all < 2*most {
		t.Errorf("it reads %d of %d keys, want at most %d", s.keys, all, most)
	}
	if len(got.Notes) != 1 || got.Queue != nil || !strings.HasPrefix(got.Notes[0].String(), "There are more than 20000 tasks") {
		t.Errorf("it notes %q, and its place is %v", got.Notes, got.Queue)
	}
	got.Notes, want.Queue = nil, nil
	if a, b := rendered(t, got), rendered(t, want); a != b {
		t.Errorf("it says\n%s\nand of everything\n%s", a, b)
	}
}

// TestWhyOfWhatCannotBeRead: an undecodable key counts as absent, is named, and does not prevent
// the rest of the explanation.
func TestWhyOfWhatCannotBeRead(t *testing.T) {
	store, _ := crowded(t, 3, 3)
	broken := controlplane.Txn{Ops: []controlplane.Op{
		{Key: controlplane.CordonKey("n00001"), Value: []byte{99}}, {Key: controlplane.StatusKey("a", "t000000"), Value: []byte{99}},
	}}
	if _, err := store.Commit(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	got, _, err := Why(t.Context(), store, large(), time.Unix(0, 1<<41))
	if err != nil || got.Summary != "It waits for 1 cpu: none of 2 nodes has that free, and n00000 is nearest with 0.5 of 1.5 cpu." {
		t.Fatal(got, err)
	}
	want := "What is stored as /escher/cordons/n00001 and /escher/status/a/t000000 cannot be read by this version, and counts as absent."
	if len(got.Notes) != 1 || got.Notes[0].String() != want {
		t.Errorf("it notes %q", got.Notes)
	}
}

// TestWhyIsOfOneRevision: when the revision is compacted meanwhile, Why reads everything again; any
// other failure is returned.
func TestWhyIsOfOneRevision(t *testing.T) {
	store, _ := crowded(t, 3, 3)
	for failures, fails := range map[int]bool{1: false, 2: false, 3: true} {
		left := failures
		s := &counted{Store: store, fail: func(opts controlplane.ListOptions) error {
			if opts.Revision != 0 && left > 0 {
				left--
				return types.Errorf(types.Compacted, "gone")
			}
			return nil
		}}
		if _, _, err := Why(t.Context(), s, large(), time.Unix(0, 1<<41)); fails != (err != nil) || err != nil && !types.Is(err, types.Compacted) {
			t.Errorf("%d failures: %v", failures, err)
		}
	}
	s := &counted{Store: store, fail: func(opts controlplane.ListOptions) error {
		if strings.HasPrefix(opts.Prefix, controlplane.Prefix(controlplane.Bindings)) {
			return types.Errorf(types.Unavailable, "no answer")
		}
		return nil
	}}
	if _, _, err := Why(t.Context(), s, large(), time.Unix(0, 1<<41)); !types.Is(err, types.Unavailable) {
		t.Error(err)
	}
	if _, _, err := Why(t.Context(), store, Subject{why.KindTask, "a", "none"}, time.Unix(0, 1<<41)); !types.Is(err, types.NotFound) {
		t.Error(err)
	}
}

// BenchmarkWhy explains a task that waits among 200,000 running on 10,000 nodes, from the keys read
// for it and from all keys.
func BenchmarkWhy(b *testing.B) {
	store, all := crowded(b, 10_000, 200_000)
	now := time.Unix(0, 1<<41)
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		s := &counted{Store: store}
		for b.Loop() {
			s.keys = 0
			if _, _, err := Why(b.Context(), s, large(), now); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(s.keys), "keys/op")
	})
	b.Run("mirrored", func(b *testing.B) {
		b.ReportAllocs()
		s := follow(b, store)
		for {
			if v, err := s.Fork(b.Context()); err != nil {
				b.Fatal(err)
			} else if v != nil {
				break // it is followed
			}
		}
		for b.Loop() {
			if _, _, err := Why(b.Context(), s, large(), now); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("everything", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Explain(wholeView(b, store), cluster.ID{Namespace: "a", ID: "large"}, now); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(all), "keys/op")
	})
}
