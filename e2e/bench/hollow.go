package bench

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/workload"
	"github.com/escher-sched/escher/types"
)

// ns is the namespace of everything a benchmark submits, unless it takes several.
const ns = "bench"

// specDigest is the spec digest of hollow tasks.
const specDigest = "0123456789abcdef0123456789abcdef"

const (
	// loadInFlight is the number of load transactions in flight.
	loadInFlight = 8
	// loadBytes is the largest size of one of them.
	loadBytes = 512 << 10
	// hollowTTL is how long a hollow node is alive, which is longer than any run.
	hollowTTL = 24 * time.Hour
)

// item is a key to load. A node that is alive is on a lease, as always.
type item struct {
	key   string
	value types.Message
}

func (x item) leased() bool {
	_, ok := x.value.(*types.Alive)
	return ok
}

// loadAll puts items, in no order, in as few transactions as etcd allows. loaded, unless nil,
// receives the keys of each with their revision, one call at a time.
func loadAll(ctx context.Context, store controlplane.Store, items iter.Seq[item], loaded func(keys []string, revision int64)) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(loadInFlight)
	var mu sync.Mutex
	change := controlplane.NewChange(controlplane.NewBatch())
	flush := func() {
		txn := change.Txn()
		change = controlplane.NewChange(controlplane.NewBatch())
		g.Go(func() error {
			res, err := controlplane.Commit(ctx, store, txn)
			if err != nil || loaded == nil {
				return err
			}
			keys := make([]string, len(txn.Ops))
			for i, op := range txn.Ops {
				keys[i] = op.Key
			}
			mu.Lock()
			defer mu.Unlock()
			loaded(keys, res.Revision)
			return nil
		})
	}
	var lease controlplane.LeaseID
	for x := range items {
		if x.leased() && lease == 0 {
			var err error
			if lease, err = store.GrantLease(ctx, hollowTTL); err != nil {
				return errors.Join(err, g.Wait())
			}
		}
		if x.leased() {
			change.PutOn(x.key, x.value, lease)
		} else {
			change.Put(x.key, x.value)
		}
		if _, ops := change.Size(); ops >= store.Limits().Ops || change.Bytes() > loadBytes {
			flush()
		}
		if ctx.Err() != nil {
			break
		}
	}
	if _, ops := change.Size(); ops > 0 {
		flush()
	}
	return g.Wait()
}

func nodeName(i int) string { return workload.NodeName(i) }
func taskName(i int) string { return workload.TaskName(i) }

// hollow is a cluster and its work: nodes that are keys only, and tasks of some shapes.
type hollow struct {
	nodes   []*types.Node
	devices []*types.Devices // nil means none
	shapes  []types.Requests
	// tasks are indices of shapes.
	tasks []int
	// namespaces is the number of namespaces that the tasks spread over; 0 means one.
	namespaces int
	// absent means that a node is alive only once its agent runs.
	absent bool
	// at is the node of each task, for tasks bound to certain nodes.
	at []int
}

// namespace is the namespace of the i-th task.
func (h *hollow) namespace(i int) string {
	if h.namespaces < 2 {
		return ns
	}
	return fmt.Sprintf("%s-%03d", ns, i%h.namespaces)
}

// nodeItems are the keys of the nodes.
func (h *hollow) nodeItems(yield func(item) bool) {
	for i, n := range h.nodes {
		name := nodeName(i)
		if !yield(item{controlplane.NodeKey(name), n}) || !h.absent && !yield(item{controlplane.AliveKey(name), &types.Alive{TTLSeconds: 15}}) {
			return
		}
		if d := h.devices[i]; d != nil && !yield(item{controlplane.DevicesKey(name), d}) {
			return
		}
	}
}

// taskItems are the keys of the tasks, which are invisible until their job exists. edit, unless
// nil, changes the requests of a task.
func (h *hollow) taskItems(edit func(i int, t *types.Task)) iter.Seq[item] {
	return func(yield func(item) bool) {
		for i := range h.tasks {
			t := h.task(i)
			if edit != nil {
				edit(i, t)
			}
			if !yield(item{controlplane.TaskKey(h.namespace(i), taskName(i)), t}) {
				return
			}
		}
	}
}

// task is the i-th task.
func (h *hollow) task(i int) *types.Task {
	return &types.Task{Name: "bench", Job: "bench", Spec: specDigest, Submitted: int64(i + 1), Requests: h.shapes[h.tasks[i]]}
}

// seed is the seed of the cluster and the tasks: every round has the same.
const seed = 1

// newHollow draws the cluster and tasks of a configuration.
func newHollow(cfg Config) (*hollow, error) {
	f, err := workload.NewFleet(cfg.Nodes, cfg.Tasks, seed)
	if err != nil {
		return nil, err
	}
	h := newHollowOf(f)
	h.particularFirst()
	return h, nil
}

// particularFirst puts tasks that fit on few nodes first, as no capacity is kept for them there.
func (h *hollow) particularFirst() {
	places := make([]int, len(h.shapes))
	for i, shape := range h.shapes {
		for _, n := range h.nodes {
			if !slices.ContainsFunc(shape, func(x types.Request) bool { return n.Capacity.Get(x.Name) < x.Amount }) {
				places[i]++
			}
		}
	}
	slices.SortStableFunc(h.tasks, func(a, b int) int { return places[a] - places[b] })
}

// newHollowOf makes the nodes and tasks of a fleet.
func newHollowOf(f *workload.Fleet) *hollow {
	h := &hollow{shapes: f.Shapes, tasks: f.Tasks}
	for i := range f.Machines {
		h.nodes, h.devices = append(h.nodes, f.Node(i)), append(h.devices, f.Devices(i))
	}
	return h
}

// kinds returns the number of node kinds, and of request vectors.
func (h *hollow) kinds() (nodes, shapes float64) {
	kinds := make(map[string]bool)
	for _, n := range h.nodes {
		kinds[fmt.Sprint(n.Capacity)] = true
	}
	asked := make(map[int]bool)
	for _, s := range h.tasks {
		asked[s] = true
	}
	return float64(len(kinds)), float64(len(asked))
}

// loadNodes makes the nodes, and records their sessions.
func (c *cluster) loadNodes(ctx context.Context, h *hollow) error {
	c.sessions = make(map[string]int64, len(h.nodes))
	return loadAll(ctx, c.store, h.nodeItems, func(keys []string, revision int64) {
		for _, key := range keys {
			if k, ok := controlplane.Parse(key); ok && k.Kind == controlplane.Alive {
				c.sessions[k.Node] = revision
			}
		}
	})
}

// loadTasks makes the tasks; see taskItems.
func (c *cluster) loadTasks(ctx context.Context, h *hollow, edit func(int, *types.Task)) error {
	return loadAll(ctx, c.store, h.taskItems(edit), nil)
}
