package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// binding measures how many tasks per second are bound, from the moment they become visible until a
// separate watcher has seen the last binding.
type binding struct {
	// name is the name of the arm.
	name string
	// ops, nodes and schedulers are numbers; 0 means the configured one, for schedulers one.
	ops, nodes, schedulers int
	// namespaces is the number of namespaces that the tasks spread over; 0 means the usual one.
	namespaces int
	// shape, unless nil, receives the shape of the transactions.
	shape *txnShape
	// draw makes the cluster and the tasks; nil means newHollow.
	draw func(Config) (*hollow, error)
	// prepare adds further keys once the nodes exist, unless nil.
	prepare func(context.Context, *cluster, *hollow) error
	// edit changes the requests of a task, unless nil.
	edit func(h *hollow, i int, t *types.Task)
	// pending makes everything eligible before the scheduler begins: the clock starts when it has
	// listed everything.
	pending bool
	// spare is the share of tasks that may be left when the clock stops: binding in an undefined
	// order leaves a few that fit nowhere.
	spare float64
	// begin makes the tasks eligible; nil puts the jobs that make them visible, unless they were
	// pending.
	begin func(context.Context, *cluster, *hollow) error
}

// arm is the measurement as an arm.
func (b binding) arm() arm {
	return arm{b.name, func(ctx context.Context, cfg Config) (figures, error) {
		cfg.Ops, cfg.Nodes = cmp.Or(b.ops, cfg.Ops), cmp.Or(b.nodes, cfg.Nodes)
		return onCluster(ctx, cfg, b.measure)
	}}
}

func (b binding) measure(ctx context.Context, c *cluster, found figures) error {
	h, err := b.load(ctx, c)
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	bound, err := c.watch(watching, controlplane.Prefix(controlplane.Bindings), nil)
	if err != nil {
		return err
	}
	all, err := b.schedule(c)
	if err != nil {
		return err
	}
	if !b.pending {
		for _, p := range all {
			if err := p.settled(ctx); err != nil {
				return err
			}
		}
	}
	began := time.Now()
	u, err := c.window(ctx, func(ctx context.Context) error {
		if !b.pending {
			began = time.Now()
		}
		n := len(h.tasks) - int(b.spare*float64(len(h.tasks)))
		last, err := b.bind(ctx, c, h, bound, n)
		found[rate] = float64(n) / last.Sub(began).Seconds()
		return err
	})
	if err != nil {
		return err
	}
	stop()
	if err := c.add(found, u, len(h.tasks)); err != nil {
		return err
	}
	if err := b.look(ctx, all, found); err != nil {
		return err
	}
	found["node_kinds"], found["shapes"] = h.kinds()
	return c.utilisation(ctx, found)
}

// load makes the nodes, further keys, and the tasks, which are still invisible.
func (b binding) load(ctx context.Context, c *cluster) (*hollow, error) {
	draw := b.draw
	if draw == nil {
		draw = newHollow
	}
	h, err := draw(c.cfg)
	if err != nil {
		return nil, err
	}
	h.namespaces = b.namespaces
	if err := c.loadNodes(ctx, h); err != nil {
		return nil, err
	}
	if b.prepare != nil {
		if err := b.prepare(ctx, c, h); err != nil {
			return nil, err
		}
	}
	var edit func(int, *types.Task)
	if b.edit != nil {
		edit = func(i int, t *types.Task) { b.edit(h, i, t) }
	}
	return h, c.loadTasks(ctx, h, edit)
}

// schedule starts the schedulers. A single one is named after its role.
func (b binding) schedule(c *cluster) ([]*process, error) {
	if b.schedulers < 2 {
		p, err := c.startScheduler(roleScheduler, false)
		return []*process{p}, err
	}
	var out []*process
	for i := range b.schedulers {
		p, err := c.startScheduler(fmt.Sprintf("%s-%d", roleScheduler, i+1), true)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// bind makes the tasks eligible, waits until n are bound, and returns when that was seen.
func (b binding) bind(ctx context.Context, c *cluster, h *hollow, bound *watcher, n int) (time.Time, error) {
	begin := b.begin
	if begin == nil {
		begin = putJobs
	}
	if !b.pending {
		if err := begin(ctx, c, h); err != nil {
			return time.Time{}, err
		}
	}
	last, err := bound.until(ctx, controlplane.Bindings, n)
	if errors.Is(err, errStalled) {
		err = sureToFit(c.stuck(ctx, err), len(h.nodes), len(h.tasks))
	}
	return last, err
}

// tasksANode is the number of tasks per node at which all of them fit, wherever the first ones are
// placed.
const tasksANode = 10

// sureToFit adds to an error that the workload may not fit, if that is so.
func sureToFit(err error, nodes, tasks int) error {
	if err == nil || tasks >= tasksANode*nodes {
		return err
	}
	return types.Errorf(types.ClassOf(err), "%w\n%d tasks on %d nodes are not sure to fit: give --tasks %d or more, or fewer --nodes", err, tasks, nodes, tasksANode*nodes)
}

// Names of the schedulers' counters.
const (
	committed        = partMetric + "transactions_total/committed"
	refused          = partMetric + "transactions_total/refused"
	overtook         = partMetric + "transactions_total/overtook"
	conflictsPercent = "conflicts_percent"
	overtookPercent  = "overtook_percent"
)

// look adds the schedulers' counters to the figures, and passes them to the shape.
func (b binding) look(ctx context.Context, all []*process, found figures) error {
	sum := make(map[string]float64)
	for _, p := range all {
		stats, err := p.stats(ctx)
		if err != nil {
			return err
		}
		if b.shape != nil {
			b.shape.learn(stats)
		}
		for name, x := range stats {
			sum[name] += x
		}
	}
	n := float64(len(all))
	found[partP50], found[partP99] = sum[partP50]/n, sum[partP99]/n
	found["txn_tasks"], found["txn_nodes"] = sum[partPut+putBindings]/sum[partTxns], sum[partPut+compareAllocated]/sum[partTxns]
	found[conflictsPercent] = 100 * sum[refused] / max(1, sum[committed]+sum[refused])
	found[overtookPercent] = 100 * sum[overtook] / max(1, sum[committed]+sum[overtook])
	return nil
}

// putJobs makes the tasks visible, in one transaction.
func putJobs(ctx context.Context, c *cluster, h *hollow) error {
	x := controlplane.NewChange(controlplane.NewBatch())
	for i := range max(1, h.namespaces) {
		x.Put(controlplane.JobKey(h.namespace(i), "bench"), &types.Job{Name: "bench", Tasks: len(h.tasks) / max(1, h.namespaces), Submitted: time.Now().UnixNano()})
	}
	_, err := controlplane.Commit(ctx, c.store, x.Txn())
	return err
}

// settleEvery is the interval for checking whether a scheduler has settled.
const settleEvery = 20 * time.Millisecond

// settled waits until a scheduler has listed everything and tried to place all visible tasks.
func (p *process) settled(ctx context.Context) error {
	again := time.NewTicker(settleEvery)
	defer again.Stop()
	for {
		stats, err := p.stats(ctx)
		if err != nil {
			return err
		}
		if stats[partMetric+"wakeups_total"] > 0 && stats[partMetric+"shapes/ready"] == 0 && stats[partMetric+"transactions_in_flight"] == 0 {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
