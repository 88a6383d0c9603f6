package gang

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/types"
)

// Contending gangs are submitted all at once, far more than fit, and run on hollow agents.

// The bounds of the size of a gang, and of its run time.
const (
	leastMembers, mostMembers = 2, 64
	leastRun, mostRun         = time.Second, 3 * time.Second
)

// contending is one gang.
type contending struct {
	first, members int
	runs           time.Duration
	left           int
}

// drawContending draws the same gangs every time.
func drawContending(n int) []contending {
	rng := rand.New(rand.NewPCG(rig.Seed, rig.Seed))
	all, first := make([]contending, n), 0
	for i := range all {
		members := leastMembers + rng.IntN(mostMembers-leastMembers+1)
		all[i] = contending{first: first, members: members, left: members, runs: leastRun + time.Duration(rng.Int64N(int64(mostRun-leastRun)))}
		first += members
	}
	return all
}

// runGangsContending measures the share of the processors that members use from the first
// submission to the last end, by the library and built into the scheduler.
func runGangsContending(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	cfg.Ops = max(cfg.Ops, rig.OwnOps)
	var arms []rig.Arm
	for _, sp := range spaces()[1:] {
		arms = append(arms, rig.Arm{Name: sp.name, Measure: func(ctx context.Context, cfg rig.Config) (rig.Figures, error) { return measureContending(ctx, cfg, sp) }})
	}
	s, err := rig.Interleave(ctx, cfg, arms...)
	if err != nil {
		return nil, err
	}
	lib, frame := s.Of(libSpace, usedPercent), s.Of(frameSpace, usedPercent)
	r := rig.NewRow(cfg, "gangs", "% of cpu", lib).Over(frameSpace, lib, frame).AddDetails(s, libSpace, usedPercent).
		AddViolations(s.Violations(libSpace, frameSpace))
	return []rig.Row{*r.Require(cfg.Must, rig.Target{Figure: rig.Ratio, Must: 0.95})}, nil
}

// usedPercent is the used share of the processors.
const usedPercent = "used_percent"

func measureContending(ctx context.Context, cfg rig.Config, sp space) (rig.Figures, error) {
	return rig.OnCluster(ctx, cfg, func(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
		h, names := &rig.Hollow{Absent: true}, make([]string, cfg.Nodes)
		for i := range cfg.Nodes {
			h.Nodes, h.Devices, names[i] = append(h.Nodes, smallNode()), append(h.Devices, nil), rig.NodeName(i)
		}
		if err := c.LoadNodes(ctx, h); err != nil {
			return err
		}
		if err := c.StartRoles(ctx, sp.role, rig.RoleKeeper); err != nil {
			return err
		}
		if err := c.StartCollector(ctx); err != nil {
			return err
		}
		client, err := controlplane.New(c.Store, rig.Namespace)
		if err != nil {
			return err
		}
		x := &contention{gangs: drawContending(cfg.Tasks), space: sp, client: builtin.New(client), over: make(chan struct{})}
		return c.WithAgents(ctx, names, x.runFor, func(ctx context.Context) error {
			u, err := c.Window(ctx, x.run)
			if err != nil {
				return err
			}
			x.tell(cfg, found)
			if err := c.WaitGone(ctx, controlplane.Policies); err != nil {
				return err
			}
			return c.AddUsage(found, u, x.tasks())
		})
	})
}

// contention is the gangs of a run.
type contention struct {
	gangs  []contending
	space  space
	client *esl.Client

	mu sync.Mutex
	// bound is the bind time of each task, as the scheduler says; for each gang the first and the
	// last count.
	bound map[string]int64
	ended int
	began time.Time
	took  time.Duration
	over  chan struct{}
}

func (x *contention) tasks() int {
	last := x.gangs[len(x.gangs)-1]
	return last.first + last.members
}

// gangOf is the gang of a task id.
func (x *contention) gangOf(id string) *contending {
	i, err := strconv.Atoi(id[len("task-"):])
	if err != nil {
		return nil
	}
	at, found := slices.BinarySearchFunc(x.gangs, i, func(g contending, i int) int { return g.first - i })
	if !found {
		at--
	}
	return &x.gangs[at]
}

// runFor is how long a member runs.
func (x *contention) runFor(k controlplane.Key, _ *types.Binding) time.Duration {
	return x.gangOf(k.ID).runs
}

// run submits all gangs, and waits until all have ended.
func (x *contention) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	x.bound = make(map[string]int64)
	var synced sync.Once
	listed, done := make(chan struct{}), false
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return x.client.Watch(ctx, controlplane.WatchTasks{}, func(u controlplane.StatusUpdate) error {
			x.note(u)
			if u.Synced {
				synced.Do(func() { close(listed) })
			}
			return nil
		})
	})
	g.Go(func() error {
		defer stop()
		select {
		case <-listed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := x.submit(ctx); err != nil {
			return err
		}
		select {
		case <-x.over:
			done = true
			return nil
		case <-time.After(2 * rig.Stall):
			return types.Errorf(types.Internal, "gangs: %d of %d tasks have ended after %s", x.ended, x.tasks(), 2*rig.Stall)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err := g.Wait(); !done {
		return err
	}
	return nil
}

// submit submits all gangs, one after the other.
func (x *contention) submit(ctx context.Context) error {
	x.began = time.Now()
	for _, g := range x.gangs {
		tasks := make([]controlplane.Submission, g.members)
		for m := range tasks {
			tasks[m] = controlplane.Submission{
				ID:   rig.TaskName(g.first + m),
				Task: types.Task{Name: "member", Requests: types.NewRequests(map[string]types.Quantity{string(types.CPU): 1000})},
				Spec: &types.Spec{Image: "escher.local/bench:latest"},
			}
		}
		if err := x.space.submit(ctx, x.client, tasks); err != nil {
			return fmt.Errorf("submit a gang of %d: %w", g.members, err)
		}
	}
	return nil
}

// note records status changes.
func (x *contention) note(u controlplane.StatusUpdate) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range u.Changes {
		if c.Status == nil {
			continue
		}
		x.bound[c.ID] = c.Status.Bound
		if !c.Status.Phase.Ended() {
			continue
		}
		if x.ended++; x.ended == x.tasks() {
			x.took = time.Since(x.began)
			close(x.over)
		}
	}
}

// tell adds the figures.
func (x *contention) tell(cfg rig.Config, found rig.Figures) {
	var used time.Duration
	var apart float64
	for _, g := range x.gangs {
		used += g.runs * time.Duration(g.members)
		first, last := int64(0), int64(0)
		for m := range g.members {
			at := x.bound[rig.TaskName(g.first+m)]
			if first == 0 || at < first {
				first = at
			}
			last = max(last, at)
		}
		apart = max(apart, float64(last-first)/1e6)
	}
	found[usedPercent] = 100 * used.Seconds() / (x.took.Seconds() * float64(cfg.Nodes*cpusOnNode))
	found["bound_apart_ms"], found["makespan_s"] = apart, x.took.Seconds()
}
