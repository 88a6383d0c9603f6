package bench

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// The floor: transactions of the shape that the scheduler commits, over the same
// client, with the same compares and values of the same size, as many in flight.
// Nothing is decided, and nobody watches. Its keys lie beside Escher's.

// Shape of a transaction of the floor: that of scheduler.Config.
const (
	floorBatch    = 256
	floorInFlight = 4
)

// floorRoot is where the keys of the floor lie.
const floorRoot = "/floor/"

// floor returns how many tasks a second etcd itself takes the binding of.
func floor(ctx context.Context, store controlplane.Store, cfg Config) (float64, error) {
	f := &flooring{cfg: cfg, store: store, allocated: make([]int64, cfg.Nodes)}
	if err := f.load(ctx); err != nil {
		return 0, err
	}
	start := time.Now()
	var g errgroup.Group
	batches := make(chan int)
	for range min(floorInFlight, max(1, cfg.Nodes/floorBatch)) {
		g.Go(func() error {
			for first := range batches {
				if err := f.bind(ctx, first); err != nil {
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(batches)
		for first := 0; first < cfg.Tasks; first += f.batch() {
			select {
			case batches <- first:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	err := g.Wait()
	return float64(cfg.Tasks) / time.Since(start).Seconds(), err
}

type flooring struct {
	cfg   Config
	store controlplane.Store
	// nodes, alive and tasks are the revisions of those keys.
	nodes, alive, tasks []int64
	// allocated is the revision of the allocation of each node. Batches in
	// flight touch different nodes.
	allocated []int64
}

// batch is the size of a batch: no node is twice in the batches in flight.
func (f *flooring) batch() int { return max(1, min(floorBatch, f.cfg.Nodes/(2*floorInFlight))) }

func (f *flooring) load(ctx context.Context) error {
	l := newLoader(ctx, f.store)
	put := func(n int, key func(int) string, m func(int) types.Message) ([]int64, error) {
		revisions := make([]int64, 0, n)
		for i := range n {
			l.change.Put(floorRoot+key(i), m(i))
			if l.n++; l.n == loadBatch || i == n-1 {
				size := l.n
				rev, err := l.flush()
				if err != nil {
					return nil, err
				}
				for range size {
					revisions = append(revisions, rev)
				}
			}
		}
		return revisions, nil
	}
	var err error
	f.nodes, err = put(f.cfg.Nodes, func(i int) string { return "nodes/" + nodeName(i) }, func(int) types.Message { return hollowNode(f.cfg) })
	if err != nil {
		return err
	}
	if f.alive, err = put(f.cfg.Nodes, func(i int) string { return "alive/" + nodeName(i) }, func(int) types.Message { return &types.Alive{TTLSeconds: 15} }); err != nil {
		return err
	}
	f.tasks, err = put(f.cfg.Tasks, func(i int) string { return "tasks/bench/" + taskName(i) }, func(i int) types.Message { return hollowTask(i) })
	return err
}

// bind commits one batch of bindings, each on a node of its own.
func (f *flooring) bind(ctx context.Context, first int) error {
	c := controlplane.NewChange(controlplane.NewBatch())
	c.IfUnchanged(floorRoot+"namespaces/bench", 0)
	last := min(first+f.batch(), f.cfg.Tasks)
	for i := first; i < last; i++ {
		f.bindOne(c, i)
	}
	res, err := f.store.Commit(ctx, c.Txn())
	if err != nil {
		return err
	}
	if !res.Committed {
		return types.Errorf(types.Internal, "floor: a transaction was refused")
	}
	for i := first; i < last; i++ {
		f.allocated[i%f.cfg.Nodes] = res.Revision
	}
	return nil
}

func (f *flooring) bindOne(c *controlplane.Change, i int) {
	n := i % f.cfg.Nodes
	node, task := nodeName(n), taskName(i)
	c.IfUnchanged(floorRoot+"allocated/"+node, f.allocated[n])
	c.IfUnchanged(floorRoot+"nodes/"+node, f.nodes[n])
	c.IfUnchanged(floorRoot+"cordons/"+node, 0)
	c.IfCreated(floorRoot+"alive/"+node, f.alive[n])
	c.IfUnchanged(floorRoot+"tasks/bench/"+task, f.tasks[i])
	c.IfUnchanged(floorRoot+"status/bench/"+task, 0)
	t := hollowTask(i)
	holds := make([]types.Holding, 0, len(t.Requests))
	for _, r := range t.Requests {
		holds = append(holds, types.Holding{Resource: types.ResourceID(r.Name), Amount: r.Amount})
	}
	now := time.Now().UnixNano()
	c.Put(floorRoot+"bindings/"+node+"/bench/"+task+"/1", &types.Binding{Session: f.nodes[n], Holds: holds, Spec: t.Spec, Bound: now})
	c.Put(floorRoot+"status/bench/"+task, &types.Status{Phase: types.Bound, Node: node, Attempt: 1, Bound: now})
	c.Put(floorRoot+"allocated/"+node, &types.Allocated{Holds: holds})
}
