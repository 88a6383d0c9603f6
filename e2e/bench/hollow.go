package bench

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/workload"
	"github.com/escher-sched/escher/types"
)

// ns is the namespace of all that a benchmark submits, unless it takes several.
const ns = "bench"

// specDigest is the digest of what hollow tasks run.
const specDigest = "0123456789abcdef0123456789abcdef"

const (
	// loadInFlight is how many transactions are loaded at once.
	loadInFlight = 8
	// loadBytes is how large one of them gets.
	loadBytes = 512 << 10
)

// item is a key to load.
type item struct {
	key   string
	value types.Message
}

// loadAll puts items, in no order, in as few transactions as etcd allows; loaded, unless
// it is nil, is told at which revision, one call at a time.
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
	for x := range items {
		change.Put(x.key, x.value)
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

// hollow is a cluster and what is to run on it: nodes that are keys alone, and tasks of
// some shapes.
type hollow struct {
	nodes   []*types.Node
	devices []*types.Devices // nil: none
	shapes  []types.Requests
	// tasks are the indices of their shapes.
	tasks []int
	// namespaces are how many the tasks are spread over; 0 is one.
	namespaces int
	// absent tells that no node is alive before its agent is there.
	absent bool
	// at is the node of each task, where the tasks are to be on certain nodes.
	at []int
}

// namespace is that of the i-th task.
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

// taskItems are the keys of the tasks: nobody sees them until their job is there. edit,
// unless it is nil, changes what a task asks for.
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

// task is the i-th of them.
func (h *hollow) task(i int) *types.Task {
	return &types.Task{Name: "bench", Job: "bench", Spec: specDigest, Submitted: int64(i + 1), Requests: h.shapes[h.tasks[i]]}
}

// seed is that of the cluster and the tasks: every round has the same.
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

// particularFirst puts first what fits on few nodes, as nobody keeps room for it there.
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

// newHollowOf makes those of a fleet.
func newHollowOf(f *workload.Fleet) *hollow {
	h := &hollow{shapes: f.Shapes, tasks: f.Tasks}
	for i := range f.Machines {
		h.nodes, h.devices = append(h.nodes, f.Node(i)), append(h.devices, f.Devices(i))
	}
	return h
}

// kinds returns how many kinds of node there are, and how many vectors are asked for.
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

// loadNodes makes the nodes, and notes their sessions.
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
