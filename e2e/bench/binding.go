package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
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
	// gateway makes the schedulers reach etcd through a gateway.
	gateway bool
	// shape, unless nil, receives the shape of the transactions.
	shape *txnShape
	// draw makes the cluster and the tasks; nil means rig.NewHollow.
	draw func(rig.Config) (*rig.Hollow, error)
	// prepare adds further keys once the nodes exist, unless nil.
	prepare func(context.Context, *rig.Cluster, *rig.Hollow) error
	// edit changes the requests of a task, unless nil.
	edit func(h *rig.Hollow, i int, t *types.Task)
	// pending makes everything eligible before the scheduler begins: the clock starts when it has
	// listed everything.
	pending bool
	// spare is the share of tasks that may be left when the clock stops: binding in an undefined
	// order leaves a few that fit nowhere.
	spare float64
	// begin makes the tasks eligible; nil puts the jobs that make them visible, unless they were
	// pending.
	begin func(context.Context, *rig.Cluster, *rig.Hollow) error
}

// arm is the measurement as an arm.
func (b binding) arm() rig.Arm {
	return rig.Arm{Name: b.name, Measure: func(ctx context.Context, cfg rig.Config) (rig.Figures, error) {
		cfg.Gateway = b.gateway
		cfg.Ops, cfg.Nodes = cmp.Or(b.ops, cfg.Ops), cmp.Or(b.nodes, cfg.Nodes)
		return rig.OnCluster(ctx, cfg, b.measure)
	}}
}

func (b binding) measure(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
	h, err := b.load(ctx, c)
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	bound, err := c.Watch(watching, controlplane.Prefix(controlplane.Bindings), nil)
	if err != nil {
		return err
	}
	all, err := b.schedule(c)
	if err != nil {
		return err
	}
	if !b.pending {
		for _, p := range all {
			if err := waitSettled(ctx, p); err != nil {
				return err
			}
		}
	}
	began := time.Now()
	u, err := c.Window(ctx, func(ctx context.Context) error {
		if !b.pending {
			began = time.Now()
		}
		n := len(h.Tasks) - int(b.spare*float64(len(h.Tasks)))
		last, err := b.bind(ctx, c, h, bound, n)
		found[rig.Rate] = float64(n) / last.Sub(began).Seconds()
		return err
	})
	if err != nil {
		return err
	}
	stop()
	if err := c.AddUsage(found, u, len(h.Tasks)); err != nil {
		return err
	}
	if err := b.look(ctx, all, found); err != nil {
		return err
	}
	found["node_kinds"], found["shapes"] = h.Kinds()
	return addUtilisation(ctx, c, found)
}

// load makes the nodes, further keys, and the tasks, which are still invisible.
func (b binding) load(ctx context.Context, c *rig.Cluster) (*rig.Hollow, error) {
	draw := b.draw
	if draw == nil {
		draw = rig.NewHollow
	}
	h, err := draw(c.Config)
	if err != nil {
		return nil, err
	}
	h.Namespaces = b.namespaces
	if err := c.LoadNodes(ctx, h); err != nil {
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
	return h, c.LoadTasks(ctx, h, edit)
}

// schedule starts the schedulers. A single one is named after its role.
func (b binding) schedule(c *rig.Cluster) ([]*rig.Process, error) {
	if b.schedulers < 2 {
		p, err := c.StartScheduler(rig.RoleScheduler, false)
		return []*rig.Process{p}, err
	}
	var out []*rig.Process
	for i := range b.schedulers {
		p, err := c.StartScheduler(fmt.Sprintf("%s-%d", rig.RoleScheduler, i+1), true)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// bind makes the tasks eligible, waits until n are bound, and returns when that was seen.
func (b binding) bind(ctx context.Context, c *rig.Cluster, h *rig.Hollow, bound *rig.Watcher, n int) (time.Time, error) {
	begin := b.begin
	if begin == nil {
		begin = putJobs
	}
	if !b.pending {
		if err := begin(ctx, c, h); err != nil {
			return time.Time{}, err
		}
	}
	last, err := bound.Until(ctx, controlplane.Bindings, n)
	if errors.Is(err, rig.ErrStalled) {
		err = sureToFit(explainStuck(ctx, c, err), len(h.Nodes), len(h.Tasks))
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
	committed        = rig.CounterMetric + "transactions_total/committed"
	refused          = rig.CounterMetric + "transactions_total/refused"
	overtook         = rig.CounterMetric + "transactions_total/overtook"
	conflictsPercent = "conflicts_percent"
	overtookPercent  = "overtook_percent"
)

// look adds the schedulers' counters to the figures, and passes them to the shape.
func (b binding) look(ctx context.Context, all []*rig.Process, found rig.Figures) error {
	sum := make(map[string]float64)
	for _, p := range all {
		stats, err := p.Stats(ctx)
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
	found[rig.CounterP50], found[rig.CounterP99] = sum[rig.CounterP50]/n, sum[rig.CounterP99]/n
	found["txn_tasks"], found["txn_nodes"] = sum[rig.CounterPut+putBindings]/sum[rig.CounterTxns], sum[rig.CounterPut+compareAllocated]/sum[rig.CounterTxns]
	found[conflictsPercent] = 100 * sum[refused] / max(1, sum[committed]+sum[refused])
	found[overtookPercent] = 100 * sum[overtook] / max(1, sum[committed]+sum[overtook])
	return nil
}

// putJobs makes the tasks visible, in one transaction.
func putJobs(ctx context.Context, c *rig.Cluster, h *rig.Hollow) error {
	x := controlplane.NewChange(controlplane.NewBatch())
	for i := range max(1, h.Namespaces) {
		x.Put(controlplane.JobKey(h.NamespaceOf(i), "bench"), &types.Job{Name: "bench", Tasks: len(h.Tasks) / max(1, h.Namespaces), Submitted: time.Now().UnixNano()})
	}
	_, err := controlplane.Commit(ctx, c.Store, x.Txn())
	return err
}

// settleEvery is the interval for checking whether a scheduler has settled.
const settleEvery = 20 * time.Millisecond

// waitSettled waits until a scheduler has listed everything and tried to place all visible tasks.
func waitSettled(ctx context.Context, p *rig.Process) error {
	again := time.NewTicker(settleEvery)
	defer again.Stop()
	for {
		stats, err := p.Stats(ctx)
		if err != nil {
			return err
		}
		if stats[rig.CounterMetric+"wakeups_total"] > 0 && stats[rig.CounterMetric+"shapes/ready"] == 0 && stats[rig.CounterMetric+"transactions_in_flight"] == 0 {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
