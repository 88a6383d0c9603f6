package bench

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

// The floor commits transactions of the scheduler's shape over the same transport: as many tasks,
// nodes and compares of each kind, keys and values of the same size, as many in flight. It decides
// nothing, and nothing watches. Its keys are next to Escher's.

// txnShape is the average shape of the transactions that bind.
type txnShape struct {
	mu sync.Mutex
	// parts is a scheduler's counters; nil before the first.
	parts map[string]float64
}

// learn takes a scheduler's counters.
func (s *txnShape) learn(parts map[string]float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if parts[rig.CounterTxns] > 0 {
		s.parts = parts
	}
}

// floorShape is the shape of the floor's transactions.
type floorShape struct {
	tasks, nodes, inFlight int
	// perNode and perTask are the compares of each kind per node and task, at most 1; perTxn are
	// those per transaction.
	perNode, perTask, perTxn map[string]float64
	// values are the sizes of the put values, by kind.
	values map[string]int
}

const (
	compareAllocated = string(controlplane.Allocated)
	compareNodes     = string(controlplane.Nodes)
	compareCordons   = string(controlplane.Cordons)
	compareAlive     = string(controlplane.Alive)
	compareTasks     = string(controlplane.Tasks)
	compareStatus    = string(controlplane.Statuses)
	putBindings      = string(controlplane.Bindings)
)

// usualShape is the shape of a scheduler without counters: each task on its own node, as many as
// fit.
func usualShape(ops int) floorShape {
	n := min(256, (ops-1)/6)
	return floorShape{
		tasks: n, nodes: n, inFlight: 4,
		perNode: map[string]float64{compareAllocated: 1, compareNodes: 1, compareCordons: 1, compareAlive: 1},
		perTask: map[string]float64{compareTasks: 1, compareStatus: 1},
		perTxn:  map[string]float64{string(controlplane.Namespaces): 1},
		values:  map[string]int{putBindings: 100, compareStatus: 50, compareAllocated: 80},
	}
}

// floorShape returns the shape of the floor.
func (s *txnShape) floorShape(ops int) floorShape {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := usualShape(ops)
	if s.parts == nil {
		return out
	}
	p := s.parts
	each := func(name string) float64 { return p[name] / p[rig.CounterTxns] }
	binds, nodes := each(rig.CounterPut+putBindings), each(rig.CounterPut+compareAllocated)
	out.tasks, out.nodes = max(1, int(math.Round(binds))), max(1, int(math.Round(nodes)))
	out.inFlight = max(1, int(p[rig.CounterMostInFlight]))
	out.perTxn = make(map[string]float64)
	for name := range p {
		kind, ok := strings.CutPrefix(name, rig.CounterCompare)
		if !ok {
			continue
		}
		_, node := out.perNode[kind]
		_, task := out.perTask[kind]
		switch {
		case node:
			out.perNode[kind] = min(1, each(name)/nodes)
		case task:
			out.perTask[kind] = min(1, each(name)/binds)
		default:
			out.perTxn[kind] = each(name)
		}
	}
	for kind := range out.values {
		if n := p[rig.CounterPut+kind]; n > 0 {
			out.values[kind] = int(p[rig.CounterValue+kind] / n)
		}
	}
	return out
}

// floorArm measures the floor, and raw puts next to it. ops is the number of operations per
// transaction; 0 means the configured one.
func floorArm(name string, ops int, shape *txnShape) rig.Arm {
	return rig.Arm{Name: name, Measure: func(ctx context.Context, cfg rig.Config) (rig.Figures, error) {
		found := make(rig.Figures)
		cfg.Ops = cmp.Or(ops, cfg.Ops)
		return found, rig.WithCluster(ctx, cfg, func(ctx context.Context, c *rig.Cluster) error {
			f, err := newFlooring(ctx, c.Store, cfg, shape.floorShape(cfg.Ops))
			if err != nil {
				return err
			}
			_, err = c.Window(ctx, func(ctx context.Context) error {
				began := time.Now()
				err := f.binds(ctx)
				found[rig.Rate] = float64(cfg.Tasks) / time.Since(began).Seconds()
				return err
			})
			if err != nil {
				return err
			}
			return rawPuts(ctx, c, found)
		})
	}}
}

type flooring struct {
	floorShape
	store          controlplane.Store
	nNodes, nTasks int
	bytes          []byte
	// mods are the revisions of the keys of nodes and tasks.
	mods map[string][]int64
}

// newFlooring loads the keys that the transactions compare.
func newFlooring(ctx context.Context, store controlplane.Store, cfg rig.Config, shape floorShape) (*flooring, error) {
	f := &flooring{floorShape: shape, store: store, nNodes: cfg.Nodes, nTasks: cfg.Tasks}
	f.inFlight = min(f.inFlight, f.nNodes)
	f.nodes = min(f.nodes, f.nNodes/f.inFlight)
	for _, n := range f.values {
		f.bytes = slices.Repeat([]byte{0xa5}, max(n, len(f.bytes)))
	}
	h, err := rig.NewHollow(cfg)
	if err != nil {
		return nil, err
	}
	f.mods = map[string][]int64{
		compareNodes: make([]int64, f.nNodes), compareAlive: make([]int64, f.nNodes), compareAllocated: make([]int64, f.nNodes),
		compareTasks: make([]int64, f.nTasks),
	}
	at := make(map[string]*int64, 2*f.nNodes+f.nTasks)
	items := func(yield func(rig.Item) bool) {
		for i, n := range h.Nodes {
			node, alive := f.key(compareNodes, i), f.key(compareAlive, i)
			at[node], at[alive] = &f.mods[compareNodes][i], &f.mods[compareAlive][i]
			if !yield(rig.Item{Key: node, Value: n}) || !yield(rig.Item{Key: alive, Value: &types.Alive{TTLSeconds: 15}}) {
				return
			}
		}
		for i := range h.Tasks {
			task := f.key(compareTasks, i)
			at[task] = &f.mods[compareTasks][i]
			if !yield(rig.Item{Key: task, Value: h.Task(i)}) {
				return
			}
		}
	}
	loaded := make(map[string]int64, len(at))
	if err := rig.LoadAll(ctx, store, items, func(keys []string, revision int64) {
		for _, key := range keys {
			loaded[key] = revision
		}
	}); err != nil {
		return nil, err
	}
	for key, revision := range loaded {
		*at[key] = revision
	}
	return f, nil
}

// key is the key of the i-th node or task.
func (f *flooring) key(kind string, i int) string {
	switch kind {
	case compareTasks, compareStatus:
		return rig.FloorRoot + kind + "/" + rig.Namespace + "/" + rig.TaskName(i)
	}
	return rig.FloorRoot + kind + "/" + rig.NodeName(i)
}

// binds commits batches of bindings, as many in parallel as are in flight. Each worker has its own
// nodes, so that none waits for another.
func (f *flooring) binds(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	first := make(chan int)
	for w := range f.inFlight {
		g.Go(func() error {
			turn := 0
			for i := range first {
				if err := f.bind(ctx, i, f.nodesOf(w, turn)); err != nil {
					return err
				}
				turn++
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(first)
		for i := 0; i < f.nTasks; i += f.tasks {
			select {
			case first <- i:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	return g.Wait()
}

// nodesOf returns the nodes of a worker's batch.
func (f *flooring) nodesOf(worker, turn int) []int {
	own := f.nNodes / f.inFlight
	nodes := make([]int, f.nodes)
	for i := range nodes {
		nodes[i] = (turn*f.nodes+i)%own*f.inFlight + worker
	}
	return nodes
}

// bind commits a batch: the tasks from first on, on these nodes.
func (f *flooring) bind(ctx context.Context, first int, nodes []int) error {
	c := controlplane.Txn{}
	for kind, count := range f.perTxn {
		for i := range int(math.Round(count)) {
			c.Compares = append(c.Compares, controlplane.Compare{Key: rig.FloorRoot + kind + "/" + rig.TaskName(i)})
		}
	}
	for i, n := range nodes {
		f.compare(&c, f.perNode, i, len(nodes), n)
		c.Ops = append(c.Ops, f.put(f.key(compareAllocated, n), compareAllocated))
	}
	for i := first; i < min(first+f.tasks, f.nTasks); i++ {
		f.compare(&c, f.perTask, i-first, f.tasks, i)
		node := rig.NodeName(nodes[(i-first)%len(nodes)])
		c.Ops = append(c.Ops, f.put(rig.FloorRoot+putBindings+"/"+node+"/"+rig.Namespace+"/"+rig.TaskName(i)+"/1", putBindings),
			f.put(f.key(compareStatus, i), compareStatus))
	}
	res, err := f.store.Commit(ctx, c)
	if err != nil {
		return err
	}
	if !res.Committed {
		return types.Errorf(types.Internal, "floor: a transaction was refused")
	}
	for _, n := range nodes {
		f.mods[compareAllocated][n] = res.Revision
	}
	return nil
}

// compare adds the compares of the i-th of so many nodes or tasks of a transaction.
func (f *flooring) compare(c *controlplane.Txn, kinds map[string]float64, i, of, index int) {
	for kind, share := range kinds {
		if i >= int(math.Round(share*float64(of))) {
			continue
		}
		x := controlplane.Compare{Key: f.key(kind, index)}
		if mods := f.mods[kind]; mods != nil {
			x.Revision = mods[index]
		}
		if kind == compareAlive {
			x.Target = controlplane.CreateRevision
		}
		c.Compares = append(c.Compares, x)
	}
}

func (f *flooring) put(key, kind string) controlplane.Op {
	return controlplane.Op{Key: key, Value: f.bytes[:f.values[kind]]}
}
