package bench

import (
	"context"
	"fmt"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// ns is the namespace of all that a benchmark submits.
const ns = "bench"

// loadBatch is how many keys are loaded at once.
const loadBatch = 1000

// loader puts many keys in few transactions.
type loader struct {
	ctx    context.Context
	store  controlplane.Store
	change *controlplane.Change
	n      int
}

func newLoader(ctx context.Context, store controlplane.Store) *loader {
	return &loader{ctx: ctx, store: store, change: controlplane.NewChange(controlplane.NewBatch())}
}

func (l *loader) put(key string, m types.Message) error {
	l.change.Put(key, m)
	if l.n++; l.n < loadBatch {
		return nil
	}
	_, err := l.flush()
	return err
}

// flush commits what was put and returns the revision.
func (l *loader) flush() (int64, error) {
	if l.n == 0 {
		return 0, nil
	}
	res, err := controlplane.Commit(l.ctx, l.store, l.change.Txn())
	if err == nil && !res.Committed {
		err = types.Errorf(types.Internal, "load: refused without a condition")
	}
	l.change, l.n = controlplane.NewChange(controlplane.NewBatch()), 0
	return res.Revision, err
}

func nodeName(i int) string { return fmt.Sprintf("node-%05d", i) }
func taskName(i int) string { return fmt.Sprintf("task-%07d", i) }

// hollowNode is a node with room for the tasks that come to it, and a quarter more.
func hollowNode(cfg Config) *types.Node {
	each := (cfg.Tasks + cfg.Nodes - 1) / cfg.Nodes
	return &types.Node{
		Capacity: types.NewRequests(map[string]types.Quantity{
			"cpu": types.Quantity(each) * 500 * 5 / 4, "memory": types.Quantity(each) << 29 * 5 / 4,
		}),
		Labels: []types.Label{{Name: "rack", Value: "r1"}}, Address: "10.0.0.1:7070", Version: "bench",
	}
}

// hollowTask is one of a few shapes.
func hollowTask(i int) *types.Task {
	return &types.Task{
		Name: "bench", Job: "bench", Spec: "0123456789abcdef0123456789abcdef", Submitted: int64(i + 1),
		Requests: types.NewRequests(map[string]types.Quantity{
			"cpu": types.Quantity(100 + 100*(i%8)), "memory": types.Quantity(128+64*(i%8)) << 20,
		}),
	}
}

// load makes a hollow cluster and tasks that nobody sees until their job is there.
func load(ctx context.Context, store controlplane.Store, cfg Config) error {
	l := newLoader(ctx, store)
	for i := range cfg.Nodes {
		if err := l.put(controlplane.NodeKey(nodeName(i)), hollowNode(cfg)); err != nil {
			return err
		}
		if err := l.put(controlplane.AliveKey(nodeName(i)), &types.Alive{TTLSeconds: 15}); err != nil {
			return err
		}
	}
	for i := range cfg.Tasks {
		if err := l.put(controlplane.TaskKey(ns, taskName(i)), hollowTask(i)); err != nil {
			return err
		}
	}
	_, err := l.flush()
	return err
}
