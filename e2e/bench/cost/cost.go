package cost

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/types"
)

// Scenarios returns the scenario about the cost of waiting jobs.
func Scenarios() []rig.Scenario {
	return []rig.Scenario{{
		Name: "cost", About: "what waiting jobs of each policy cost scheduler and policies: idle, until they are settled, at a change; and a submission to an empty cluster",
		Full: rig.Size{Nodes: 50, Tasks: 10_000, Rounds: 1}, Quick: rig.Size{Nodes: 10, Tasks: 300, Rounds: 1}, Run: measure,
	}}
}

// Names of figures: the processor time of scheduler and policies while nothing changes, of the policies
// alone; from the last submission until both are quiet, in time and in processor time; for each node that
// becomes free, with all jobs and with a tenth of them; and the time of a job on the empty cluster beyond
// that of a plain one.
const (
	idlePercent = "idle_percent"
	keeperIdle  = "idle_keeper_percent"
	settleTime  = "settle_s"
	settleWork  = "settle_cpu_s"
	notSettled  = "not_settled"
	changeWork  = "change_ms"
	fewChange   = "change_few_ms"
	beyondPlain = "beyond_plain_ms"
	submitRate  = "submitted_per_s"
)

const (
	// cpuOfNode is the capacity of a node, in thousandths of a core, and rackOf how many are in a rack.
	cpuOfNode, rackOf = 4000, 10
	// changes is how many nodes become free, at most, fewOf which part of the jobs are few.
	changes, fewOf = 10, 10
	// onEmpty is how many jobs of each policy the empty cluster gets, and submitting how many
	// submissions are in flight later.
	onEmpty, submitting = 20, 32
	// settledShare is the part of a core below which scheduler and policies are quiet, if they are so for
	// calm. settleWithin is how long that may take.
	settledShare = 0.05
	calm         = time.Second
	settleWithin = 90 * time.Second
	// idleFor is how long the idle cluster is measured, and collected after what time the collector has
	// deleted what has ended: that is a change.
	idleFor   = 10 * time.Second
	collected = 15 * time.Second
)

// measure measures each policy alone, and all by turns.
func measure(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	some, mix, err := chosen(cfg.Policies)
	if err != nil {
		return nil, err
	}
	var arms []rig.Arm
	for _, p := range some {
		arms = append(arms, rig.Arm{Name: "cost/" + p.name, Measure: func(ctx context.Context, cfg rig.Config) (rig.Figures, error) {
			return measureOne(ctx, cfg, []policy{p})
		}})
	}
	if mix {
		arms = append(arms, rig.Arm{Name: "cost/" + mixed, Measure: func(ctx context.Context, cfg rig.Config) (rig.Figures, error) {
			return measureOne(ctx, cfg, policies())
		}})
	}
	s, err := rig.Interleave(ctx, cfg, arms...)
	if err != nil {
		return nil, err
	}
	var rows []rig.Row
	for _, a := range arms {
		row := rig.NewRow(cfg, a.Name, "% of a core", s.Of(a.Name, idlePercent)).AddDetails(s, a.Name, idlePercent).AddViolations(s.Violations(a.Name))
		rows = append(rows, *row.Require(cfg.Must, rig.Target{AtMost: true, Must: 2, Unit: " %"}, rig.Target{Figure: settleTime, AtMost: true, Must: 5, Unit: " s"},
			rig.Target{Figure: beyondPlain, AtMost: true, Must: 10, Unit: " ms"}))
	}
	return rows, nil
}

// trial is the measurement of one policy, or of several by turns.
type trial struct {
	cfg    rig.Config
	c      *rig.Cluster
	client *esl.Client
	of     []policy
	found  rig.Figures
	next   int
}

// measureOne measures jobs of some policies, by turns.
func measureOne(ctx context.Context, cfg rig.Config, of []policy) (rig.Figures, error) {
	cfg.Ops = max(cfg.Ops, rig.OwnOps) // as escher server has it
	return rig.OnCluster(ctx, cfg, func(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
		h, names := &rig.Hollow{Absent: true}, make([]string, cfg.Nodes)
		for i := range cfg.Nodes {
			h.Nodes = append(h.Nodes, &types.Node{
				Capacity: types.NewRequests(map[string]types.Quantity{string(types.CPU): cpuOfNode}), Address: "http://10.0.0.1:7070", Version: "bench",
				Labels: []types.Label{{Name: "rack", Value: fmt.Sprintf("r%02d", i/rackOf)}},
			})
			h.Devices, names[i] = append(h.Devices, nil), rig.NodeName(i)
		}
		if err := c.LoadNodes(ctx, h); err != nil {
			return err
		}
		if err := c.StartRoles(ctx, rig.RoleScheduler, rig.RoleKeeper); err != nil {
			return err
		}
		if err := c.StartCollector(ctx); err != nil {
			return err
		}
		client, err := controlplane.New(c.Store, rig.Namespace)
		if err != nil {
			return err
		}
		t := &trial{cfg: cfg, c: c, client: builtin.New(client), of: of, found: found}
		forever := func(controlplane.Key, *types.Binding) time.Duration { return math.MaxInt64 / 4 }
		return c.WithAgents(ctx, names, forever, t.run)
	})
}

// run measures: submissions to the empty cluster, then, once it is full, few and all of the jobs.
func (t *trial) run(ctx context.Context) error {
	for _, p := range t.of {
		if err := p.declare(ctx, t.client); err != nil {
			return err
		}
	}
	if _, err := t.client.SetResource(ctx, "data", 1_000_000, controlplane.OnNode(rig.NodeName(0)), controlplane.SetOptions{}); err != nil {
		return err
	}
	if err := t.empty(ctx); err != nil {
		return err
	}
	if err := t.fill(ctx); err != nil {
		return err
	}
	if err := t.submitAll(ctx, t.cfg.Tasks/fewOf); err != nil {
		return err
	}
	if _, _, err := t.settle(ctx); err != nil {
		return err
	}
	each := min(changes, t.cfg.Nodes/2)
	few, err := t.change(ctx, 0, each)
	if err != nil {
		return err
	}
	if err := rig.Sleep(ctx, collected); err != nil {
		return err
	}
	began := time.Now()
	if err := t.submitAll(ctx, t.cfg.Tasks-t.next); err != nil {
		return err
	}
	t.found[submitRate] = float64(t.cfg.Tasks-t.cfg.Tasks/fewOf) / time.Since(began).Seconds()
	took, work, err := t.settle(ctx)
	if err != nil {
		return err
	}
	t.found[settleTime], t.found[settleWork] = took.Seconds(), work.Seconds()
	u, err := t.c.Window(ctx, func(ctx context.Context) error { return rig.Sleep(ctx, idleFor) })
	if err != nil {
		return err
	}
	t.found[idlePercent] = 100 * worked(u).Seconds() / u.Wall.Seconds()
	t.found[keeperIdle] = 100 * u.CPU[rig.RoleKeeper].Seconds() / u.Wall.Seconds()
	many, err := t.change(ctx, each, each)
	t.found[fewChange], t.found[changeWork] = few, many
	return err
}

// worked is the processor time of the scheduler and of the policies.
func worked(u rig.Usage) time.Duration { return u.CPU[rig.RoleScheduler] + u.CPU[rig.RoleKeeper] }

// submit submits a job and returns the ids of its tasks.
func (t *trial) submit(ctx context.Context, p policy, id string, i int, each types.Quantity) ([]string, error) {
	var tasks []controlplane.Submission
	for range p.tasks {
		task := types.Task{Name: "w", Requests: types.NewRequests(map[string]types.Quantity{string(types.CPU): each})}
		if p.edit != nil {
			p.edit(&task)
		}
		tasks = append(tasks, controlplane.Submission{Task: task, Spec: &types.Spec{Image: "escher.local/bench:latest"}})
	}
	sub, err := t.client.Submit(ctx, controlplane.Job{ID: id, Tasks: tasks}, p.ofJob(i)...)
	return sub.Tasks, err
}

// empty measures how much longer than a plain one a job takes until it runs, on the empty cluster.
func (t *trial) empty(ctx context.Context) error {
	waits := make(map[string][]time.Duration)
	stop, err := t.keepWatching(ctx)
	if err != nil {
		return err
	}
	defer stop()
	all := append([]policy{policies()[0]}, t.of...)
	for i := range onEmpty {
		for n, p := range all {
			if err := rig.Sleep(ctx, calmed); err != nil {
				return err
			}
			began := time.Now()
			tasks, err := t.submit(ctx, p, fmt.Sprintf("e%d-%d", n, i), i, 100)
			if err != nil {
				return err
			}
			if err := t.bound(ctx, tasks); err != nil {
				return types.Errorf(types.ClassOf(err), "a job of %s on the empty cluster: %w", p.name, err)
			}
			waits[p.name] = append(waits[p.name], time.Since(began))
			for _, id := range tasks {
				if err := t.client.Stop(ctx, id, controlplane.StopOptions{}); err != nil {
					return err
				}
			}
		}
	}
	median := func(name string) float64 {
		slices.Sort(waits[name])
		return rig.Quantile(waits[name], 0.5)
	}
	for _, p := range t.of {
		t.found[beyondPlain] = max(t.found[beyondPlain], median(p.name)-median(plain))
	}
	return nil
}

// calmed is how long nothing is submitted before the next job: the policies have seen the end of the last
// one, and may be called again.
const calmed = 150 * time.Millisecond

// keepWatching keeps the watch of the client open, which all waits share. etcd looks every 100 ms only
// for what happened between the listing and the watch of a new one, which is no cost of a policy.
func (t *trial) keepWatching(ctx context.Context) (stop func(), err error) {
	ids := []string{"a-never", "z-never"} // a watch of both is one of the namespace
	for _, id := range ids {
		task := types.Task{Name: "never", Requests: types.NewRequests(map[string]types.Quantity{"never": 1000})}
		if _, err := t.client.Launch(ctx, controlplane.Submission{ID: id, Task: task, Spec: &types.Spec{Image: "escher.local/bench:latest"}}); err != nil {
			return nil, err
		}
	}
	waiting, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() { _, _ = t.client.Wait(waiting, controlplane.UntilBound, ids...) }) // it ends with stop
	return func() {
		cancel()
		ended.Wait()
		for _, id := range ids {
			_ = t.client.Stop(ctx, id, controlplane.StopOptions{}) // a task that waits costs nothing
		}
	}, nil
}

// filler is the id of the task that fills a node.
func filler(i int) string { return fmt.Sprintf("filler-%d", i) }

// fill fills all nodes.
func (t *trial) fill(ctx context.Context) error {
	var all []controlplane.Submission
	for i := range t.cfg.Nodes {
		all = append(all, controlplane.Submission{ID: filler(i), Spec: &types.Spec{Image: "escher.local/bench:latest"},
			Task: types.Task{Name: "filler", Priority: 9, Requests: types.NewRequests(map[string]types.Quantity{string(types.CPU): cpuOfNode})}})
	}
	if _, err := t.client.Launch(ctx, all...); err != nil {
		return err
	}
	var ids []string
	for i := range all {
		ids = append(ids, filler(i))
	}
	return t.bound(ctx, ids)
}

// bound waits until tasks have nodes.
func (t *trial) bound(ctx context.Context, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, rig.Stall)
	defer cancel()
	_, err := t.client.Wait(ctx, controlplane.UntilBound, ids...)
	return err
}

// submitAll submits n more jobs.
func (t *trial) submitAll(ctx context.Context, n int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(submitting)
	for range n {
		i := t.next
		t.next++
		g.Go(func() error {
			_, err := t.submit(ctx, t.of[i%len(t.of)], fmt.Sprintf("j%d", i), i, 1000)
			return err
		})
	}
	return g.Wait()
}

// settle waits until scheduler and policies are quiet, and returns how long that took, and their processor
// time.
func (t *trial) settle(ctx context.Context) (took, work time.Duration, err error) {
	for took < settleWithin {
		u, err := t.c.Window(ctx, func(ctx context.Context) error { return rig.Sleep(ctx, calm) })
		if err != nil {
			return 0, 0, err
		}
		if worked(u).Seconds() < settledShare*u.Wall.Seconds() {
			return took, work, nil
		}
		took, work = took+u.Wall, work+worked(u)
	}
	t.found[notSettled] = 1
	return took, work, nil
}

// change ends n tasks that fill nodes, one after the other, and returns the processor time of scheduler
// and policies for each, in milliseconds.
func (t *trial) change(ctx context.Context, from, n int) (float64, error) {
	u, err := t.c.Window(ctx, func(ctx context.Context) error {
		for i := range n {
			if err := t.client.Stop(ctx, filler(from+i), controlplane.StopOptions{}); err != nil {
				return err
			}
			if err := rig.Sleep(ctx, calm/2); err != nil {
				return err
			}
		}
		return nil
	})
	return float64(worked(u).Milliseconds()) / float64(max(1, n)), err
}
