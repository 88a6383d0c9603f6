package rig

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

// Namespace is the namespace of everything a benchmark submits, unless it takes several.
const Namespace = "bench"

// SpecDigest is the spec digest of hollow tasks.
const SpecDigest = "0123456789abcdef0123456789abcdef"

const (
	// LoadInFlight is the number of load transactions in flight.
	LoadInFlight = 8
	// loadBytes is the largest size of one of them.
	loadBytes = 512 << 10
	// hollowTTL is how long a hollow node is alive, which is longer than any run.
	hollowTTL = 24 * time.Hour
)

// Item is a key to load, with its value. A node that is alive is on a lease, as always.
type Item struct {
	Key   string
	Value types.Message
}

func (x Item) leased() bool {
	_, ok := x.Value.(*types.Alive)
	return ok
}

// LoadAll puts items, in no order, in as few transactions as etcd allows. loaded, unless nil,
// receives the keys of each with their revision, one call at a time.
func LoadAll(ctx context.Context, store controlplane.Store, items iter.Seq[Item], loaded func(keys []string, revision int64)) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(LoadInFlight)
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
			change.PutOn(x.Key, x.Value, lease)
		} else {
			change.Put(x.Key, x.Value)
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

// NodeName returns the name of the i-th node.
func NodeName(i int) string { return workload.NodeName(i) }

// TaskName returns the id of the i-th task.
func TaskName(i int) string { return workload.TaskName(i) }

// Hollow is a cluster and its work: nodes that are keys only, and tasks of some shapes.
type Hollow struct {
	Nodes []*types.Node
	// Devices are the devices of each node; nil means none.
	Devices []*types.Devices
	// Shapes are the different requests of tasks.
	Shapes []types.Requests
	// Tasks are indices of shapes.
	Tasks []int
	// Namespaces is the number of namespaces that the tasks spread over; 0 means one.
	Namespaces int
	// Absent reports whether a node is alive only once its agent runs.
	Absent bool
	// At is the node of each task, for tasks bound to certain nodes.
	At []int
}

// NamespaceOf returns the namespace of the i-th task.
func (h *Hollow) NamespaceOf(i int) string {
	if h.Namespaces < 2 {
		return Namespace
	}
	return fmt.Sprintf("%s-%03d", Namespace, i%h.Namespaces)
}

// NodeItems yields the keys of the nodes.
func (h *Hollow) NodeItems(yield func(Item) bool) {
	for i, n := range h.Nodes {
		name := NodeName(i)
		if !yield(Item{controlplane.NodeKey(name), n}) || !h.Absent && !yield(Item{controlplane.AliveKey(name), &types.Alive{TTLSeconds: 15}}) {
			return
		}
		if d := h.Devices[i]; d != nil && !yield(Item{controlplane.DevicesKey(name), d}) {
			return
		}
	}
}

// taskItems are the keys of the tasks, which are invisible until their job exists. edit, unless
// nil, changes the requests of a task.
func (h *Hollow) taskItems(edit func(i int, t *types.Task)) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		for i := range h.Tasks {
			t := h.Task(i)
			if edit != nil {
				edit(i, t)
			}
			if !yield(Item{controlplane.TaskKey(h.NamespaceOf(i), TaskName(i)), t}) {
				return
			}
		}
	}
}

// Task returns the i-th task.
func (h *Hollow) Task(i int) *types.Task {
	return &types.Task{Name: "bench", Job: "bench", Spec: SpecDigest, Submitted: int64(i + 1), Requests: h.Shapes[h.Tasks[i]]}
}

// Seed is the seed of the nodes and the tasks: every round has the same.
const Seed = 1

// NewHollow draws the cluster and tasks of a configuration.
func NewHollow(cfg Config) (*Hollow, error) {
	f, err := workload.NewFleet(cfg.Nodes, cfg.Tasks, Seed)
	if err != nil {
		return nil, err
	}
	h := HollowOf(f)
	h.particularFirst()
	return h, nil
}

// particularFirst puts tasks that fit on few nodes first, as no capacity is kept for them there.
func (h *Hollow) particularFirst() {
	places := make([]int, len(h.Shapes))
	for i, shape := range h.Shapes {
		for _, n := range h.Nodes {
			if !slices.ContainsFunc(shape, func(x types.Request) bool { return n.Capacity.Get(x.Name) < x.Amount }) {
				places[i]++
			}
		}
	}
	slices.SortStableFunc(h.Tasks, func(a, b int) int { return places[a] - places[b] })
}

// HollowOf makes the nodes and tasks of a fleet.
func HollowOf(f *workload.Fleet) *Hollow {
	h := &Hollow{Shapes: f.Shapes, Tasks: f.Tasks}
	for i := range f.Machines {
		h.Nodes, h.Devices = append(h.Nodes, f.Node(i)), append(h.Devices, f.Devices(i))
	}
	return h
}

// Kinds returns the number of node kinds, and of request vectors.
func (h *Hollow) Kinds() (nodes, shapes float64) {
	kinds := make(map[string]bool)
	for _, n := range h.Nodes {
		kinds[fmt.Sprint(n.Capacity)] = true
	}
	asked := make(map[int]bool)
	for _, s := range h.Tasks {
		asked[s] = true
	}
	return float64(len(kinds)), float64(len(asked))
}

// LoadNodes makes the nodes, and records their sessions.
func (c *Cluster) LoadNodes(ctx context.Context, h *Hollow) error {
	c.Sessions = make(map[string]int64, len(h.Nodes))
	return LoadAll(ctx, c.Store, h.NodeItems, func(keys []string, revision int64) {
		for _, key := range keys {
			if k, ok := controlplane.Parse(key); ok && k.Kind == controlplane.Alive {
				c.Sessions[k.Node] = revision
			}
		}
	})
}

// LoadTasks makes the tasks, which are invisible until their job exists. edit, unless nil, changes
// the requests of a task.
func (c *Cluster) LoadTasks(ctx context.Context, h *Hollow, edit func(int, *types.Task)) error {
	return LoadAll(ctx, c.Store, h.taskItems(edit), nil)
}

// WholeDevice is the amount of one entire device.
const WholeDevice types.Quantity = 1000

// DrawnOn returns the same requests, drawn on a reservation.
func DrawnOn(requests types.Requests, reservation string) types.Requests {
	all := make(map[string]types.Quantity, len(requests))
	for _, x := range requests {
		all[x.Name+"@"+reservation] = x.Amount
	}
	return types.NewRequests(all)
}
