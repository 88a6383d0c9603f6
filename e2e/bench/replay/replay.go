package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/workload"
	"github.com/escher-sched/escher/types"
)

const (
	// replaysInFlight bounds the submissions in flight.
	replaysInFlight = 64
	// quiet is the time without a change of any task, after the last submission, after which the
	// replay counts as finished.
	quiet = 10 * time.Second
)

// replay submits a workload, and records the fate of its tasks.
type replay struct {
	cfg    rig.Config
	plan   *workload.Plan
	client *controlplane.Client
	spec   *types.Spec

	mu sync.Mutex
	// fate is the fate of each task, by index.
	fate []fate
	// gangs are the numbers of unfinished tasks of each gang, by the index of its job.
	gangs map[int]int
	jobOf []int
	usage inUse

	submitted, bound, finished int
	// late is the largest delay of a submission.
	late time.Duration
	// news signals a change of a task.
	news chan struct{}
	// over are the jobs whose reservation must be given up.
	over chan int
}

// fate is the times of a task, in Unix nanoseconds; 0 means not yet.
type fate struct{ submitted, bound, ended int64 }

func newReplay(cfg rig.Config, p *workload.Plan, client *controlplane.Client) *replay {
	r := &replay{
		cfg: cfg, plan: p, client: client, spec: &types.Spec{Image: "escher.local/bench:latest"},
		fate: make([]fate, len(p.Tasks)), gangs: make(map[int]int), jobOf: make([]int, len(p.Tasks)),
		news: make(chan struct{}, 1), over: make(chan int, len(p.Jobs)),
	}
	for j, job := range p.Jobs {
		for i := range job.N {
			r.jobOf[job.First+i] = j
		}
		if job.Gang {
			r.gangs[j] = job.N
		}
	}
	r.usage = newInUse(p)
	return r
}

// indexOf returns the index of a task id.
func (r *replay) indexOf(id string) (int, bool) {
	if len(id) < len(rig.TaskName(0)) {
		return 0, false
	}
	i, err := strconv.Atoi(id[len("task-"):])
	return i, err == nil && i >= 0 && i < len(r.fate)
}

// real is the actual duration of a workload time.
func (r *replay) real(seconds float64) time.Duration {
	return time.Duration(min(seconds/r.cfg.Speed*float64(time.Second), math.MaxInt64/4))
}

// runFor returns how long a task runs.
func (r *replay) runFor(k controlplane.Key, _ *types.Binding) time.Duration {
	i, ok := r.indexOf(k.ID)
	if !ok || r.plan.Tasks[i].Runs < 0 {
		return math.MaxInt64 / 4
	}
	return r.real(r.plan.Tasks[i].Runs)
}

// run submits everything at its time, and waits for the outcome.
func (r *replay) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	synced := make(chan struct{})
	g.Go(func() error { return r.watch(ctx, synced) })
	g.Go(func() error { return r.giveUp(ctx) })
	done := false
	g.Go(func() error {
		defer stop()
		select {
		case <-synced:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := r.submitAll(ctx); err != nil {
			return err
		}
		if err := r.await(ctx); err != nil {
			return err
		}
		done = true
		return nil
	})
	if err := g.Wait(); !done {
		return err
	}
	return nil
}

// submitAll submits each job at its time, or as soon as possible.
func (r *replay) submitAll(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(replaysInFlight)
	began, first := time.Now(), r.plan.Jobs[0].At
	for j, job := range r.plan.Jobs {
		at := began.Add(r.real(job.At - first))
		if err := rig.Sleep(ctx, time.Until(at)); err != nil {
			return errors.Join(err, g.Wait())
		}
		g.Go(func() error { return r.submit(ctx, j, at) })
	}
	return g.Wait()
}

// submit submits a job: a gang along with its reservation, in one transaction if that is large
// enough.
func (r *replay) submit(ctx context.Context, j int, at time.Time) error {
	job := r.plan.Jobs[j]
	r.begin(job, at)
	id := gangName(j)
	tasks := make([]controlplane.Submission, job.N)
	bundles := make([]types.Bundle, job.N)
	for i := range tasks {
		requests := r.plan.Tasks[job.First+i].Requests
		bundles[i] = types.Bundle{Requests: requests}
		if job.Gang {
			requests = rig.DrawnOn(requests, id)
		}
		tasks[i] = controlplane.Submission{ID: rig.TaskName(job.First + i), Task: types.Task{Name: "trace", Requests: requests}, Spec: r.spec}
	}
	if !job.Gang {
		_, err := r.client.Launch(ctx, tasks...)
		return err
	}
	t := r.client.Begin()
	t.Reserve(id, types.Reservation{Bundles: bundles})
	t.Launch(tasks...)
	_, err := t.Commit(ctx)
	if !types.Is(err, types.Invalid) {
		return err
	}
	if err := r.client.Reserve(ctx, id, types.Reservation{Bundles: bundles}); err != nil {
		return err
	}
	_, err = r.client.Launch(ctx, tasks...)
	return err
}

func gangName(j int) string { return fmt.Sprintf("gang-%07d", j) }

// begin records that a job is submitted.
func (r *replay) begin(job workload.Job, at time.Time) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.submitted += job.N
	r.late = max(r.late, now.Sub(at))
	for i := range job.N {
		r.fate[job.First+i].submitted = now.UnixNano()
	}
}

// await waits until all finite tasks have finished and all others are bound, or nothing changes any
// more.
func (r *replay) await(ctx context.Context) error {
	endless := 0
	for _, t := range r.plan.Tasks {
		if t.Runs < 0 {
			endless++
		}
	}
	idle := time.NewTimer(quiet)
	defer idle.Stop()
	for {
		r.mu.Lock()
		finished, bound := r.finished, r.bound
		r.mu.Unlock()
		if finished == len(r.plan.Tasks)-endless && bound == len(r.plan.Tasks) {
			return nil
		}
		select {
		case <-r.news:
			idle.Reset(quiet)
		case <-idle.C:
			left := r.longest()
			if left <= 0 {
				return nil
			}
			idle.Reset(left + quiet)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
