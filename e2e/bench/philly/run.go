package philly

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/workload"
	sim "github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/collect"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/scheduler/search"
	"github.com/escher-sched/escher/types"
)

// patience is how long all jobs may take to begin, relative to the week. At a high speed that
// is very short, so leastPatience is the minimum: a slow machine leaves no job out.
const (
	patience      = 2.5
	leastPatience = time.Minute
	// submitsInFlight bounds the submissions in flight.
	submitsInFlight = 64
)

// runOnce runs the week on a cluster of hollow agents, and audits every revision.
func runOnce(ctx context.Context, c *rig.Cluster, found rig.Figures, jobs []workload.Training, policy queuePolicy) error {
	keep := server.DefaultPolicy()
	keep.Interval, keep.KeepMin, keep.KeepAge = 5*time.Second, 10*time.Second, 20*time.Second // ended tasks are of no further use
	h, err := c.StartHollow(ctx, sim.Config{
		Nodes: newNodes(c.Config.Nodes), Collector: keep,
		Kinds:     builtin.Kinds().With(func() esl.Policy { return inOrder{} }),
		Scheduler: scheduler.Config{Placement: search.Pack}, Collect: collect.Config{After: actual(c.Config, largeTaskAge)},
	})
	if err != nil {
		return err
	}
	if err := runWeek(ctx, c, h, found, jobs, policy); err != nil {
		return err
	}
	return h.Audit(ctx)
}

// newNodes is n nodes of eight devices.
func newNodes(n int) []sim.Node {
	nodes := sim.Nodes(n, 1)
	for i := range nodes {
		nodes[i].Capacity[string(types.GPU)] = 8 * rig.WholeDevice
	}
	return nodes
}

// actual is the actual duration of a workload time.
func actual(cfg rig.Config, seconds float64) time.Duration {
	return time.Duration(seconds / cfg.Speed * float64(time.Second))
}

// runWeek submits the jobs, each at its time, and waits until all have begun.
func runWeek(ctx context.Context, c *rig.Cluster, h *sim.Cluster, found rig.Figures, jobs []workload.Training, policy queuePolicy) error {
	client, err := h.Client(rig.Namespace)
	if err != nil {
		return err
	}
	if policy.shared != nil {
		if err := client.Declare(ctx, lineID, policy.shared, ""); err != nil {
			return err
		}
	}
	w := &trainings{jobs: jobs, all: make([]begun, len(jobs)), done: make(chan struct{})}
	bound, err := c.Watch(ctx, controlplane.Root, w.note)
	if err != nil {
		return err
	}
	began := time.Now()
	late, err := submitJobs(ctx, c, client, jobs, policy, began)
	if err != nil {
		return err
	}
	select {
	case <-w.done:
	case <-time.After(time.Until(began.Add(max(leastPatience, actual(c.Config, patience*workload.PhillyWeek))))):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	_, _, _, err = bound.State(controlplane.Bindings)
	w.mu.Lock()
	defer w.mu.Unlock()
	tellDelays(c.Config, found, jobs, w.all, began)
	found["late_s"], found["took_s"] = late.Seconds()*c.Config.Speed, time.Since(began).Seconds()
	return err
}

// submitJobs submits the jobs, and returns the largest delay of a submission.
func submitJobs(ctx context.Context, c *rig.Cluster, client *esl.Client, jobs []workload.Training, policy queuePolicy, began time.Time) (late time.Duration, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(submitsInFlight)
	for i, j := range jobs {
		at := began.Add(actual(c.Config, j.Submit))
		if err := rig.Sleep(ctx, time.Until(at)); err != nil {
			break
		}
		g.Go(func() error {
			policies := policy.of(j)
			if j.GPUs > 8 {
				policies = append(policies, gang.Gang{})
			}
			_, err := client.Submit(ctx, controlplane.Job{ID: jobID(i), Tasks: tasksOf(c, i, j, policy)}, policies...)
			return err
		})
		late = max(late, time.Since(at))
	}
	return late, g.Wait()
}

// tasksOf are the tasks of a job.
func tasksOf(c *rig.Cluster, i int, j workload.Training, policy queuePolicy) []controlplane.Submission {
	var tasks []controlplane.Submission
	devices := j.Tasks()
	for n, has := range devices {
		tasks = append(tasks, controlplane.Submission{
			ID: fmt.Sprintf("%s-%d", jobID(i), n),
			Task: types.Task{
				Name: "train", Requests: types.NewRequests(map[string]types.Quantity{string(types.GPU): types.Quantity(has) * rig.WholeDevice}),
				Accumulate: policy.ages && len(devices) == 1 && has == 8,
			},
			Spec: &types.Spec{Image: "escher.local/hollow", Command: []string{"run", actual(c.Config, j.Runs).String()}},
		})
	}
	return tasks
}

// trainings is the progress of the jobs.
type trainings struct {
	jobs []workload.Training
	done chan struct{}

	mu  sync.Mutex
	all []begun
	n   int // number that have begun
}

// note records grants and bindings, revision by revision.
func (w *trainings) note(b controlplane.Batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for events := b.Events; len(events) > 0; {
		n := 1
		for n < len(events) && events[n].ModRevision == events[0].ModRevision {
			n++
		}
		for _, kind := range []controlplane.Kind{controlplane.Grants, controlplane.Bindings} {
			for _, e := range events[:n] {
				if k, ok := controlplane.Parse(e.Key); ok && k.Kind == kind && !e.Delete {
					w.take(k, e)
				}
			}
		}
		events = events[n:]
	}
}

// take records a grant, or the first binding of a task.
func (w *trainings) take(k controlplane.Key, e controlplane.Event) {
	if len(k.ID) < len(jobID(0)) {
		return
	}
	i, err := strconv.Atoi(k.ID[1:len(jobID(0))])
	if err != nil || i >= len(w.all) {
		return
	}
	j := &w.all[i]
	if k.Kind == controlplane.Grants {
		var g types.Grant
		j.locked = types.Decode(e.Value, &g) == nil && g.Phase == types.Granted && len(g.Bundles) == len(w.jobs[i].Tasks()) && !slices.Contains(g.Bundles, "")
		return
	}
	var x types.Binding
	if k.Attempt != 1 || e.CreateRevision != e.ModRevision || types.Decode(e.Value, &x) != nil {
		return
	}
	j.bind(e.ModRevision, time.Unix(0, x.Bound), len(w.jobs[i].Tasks()))
	if j.tasks == len(w.jobs[i].Tasks()) {
		if w.n++; w.n == len(w.jobs) {
			close(w.done)
		}
	}
}

// begun is when a job was bound.
type begun struct {
	at    time.Time
	tasks int
	// locked reports whether everything a gang needs is locked.
	locked bool
	// revision is the revision of its first bind. apart reports whether others had another one, and
	// partial whether one came before all was locked.
	revision       int64
	apart, partial bool
}

// bind records that one of n tasks is bound.
func (b *begun) bind(revision int64, at time.Time, n int) {
	if b.tasks++; b.tasks == 1 {
		b.revision = revision
	}
	b.apart = b.apart || b.revision != revision
	b.partial = b.partial || n > 1 && !b.locked
	if at.After(b.at) {
		b.at = at
	}
}

// jobID is the id of a job.
func jobID(i int) string { return fmt.Sprintf("p%05d", i) }
