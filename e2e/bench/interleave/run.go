package interleave

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

// way is how jobs get devices.
type way struct {
	name string
	// gpu is what a job requests, in thousandths of a device.
	gpu types.Quantity
	// interleaved means the policy, and unmatched that all jobs declare equal phases to it.
	interleaved, unmatched bool
}

const exclusive = "exclusive"

// ways are those of the table.
func ways() []way {
	return []way{
		{name: exclusive, gpu: 1000},
		{name: "halves", gpu: 500},
		{name: "interleave", gpu: 500, interleaved: true},
		{name: "interleave-thirds", gpu: 333, interleaved: true},
		{name: "interleave-unmatched", gpu: 500, interleaved: true, unmatched: true},
	}
}

const (
	// policyName is the name of the declared policy.
	policyName = "gpus"
	// holdCost is how long a task takes to get a unit that nothing else holds: see scenario hold.
	holdCost = 200 * time.Microsecond
	// again is when a task asks again after there was no rotation.
	again = time.Second
	// session is how long the session of a node lasts without renewal: no node is lost.
	session = 24 * time.Hour
)

// world is a run of a workload.
type world struct {
	c       *hollow.Cluster
	jobs    []job
	devices devices
	// holds are the units that tasks hold, by node.
	holds map[string]*tasksocket.Holds
	group *errgroup.Group

	mu sync.Mutex
	// begun reports which jobs run, and spans when each began and ended, since begin.
	begun []bool
	spans []span
	begin time.Time
	ended int
	// all is closed when all jobs have ended.
	all chan struct{}
}

// span is when a job began and ended, and whether it was on a device with a rotation.
type span struct {
	Begin, End time.Duration
	Shared     bool
}

// run submits the jobs, each at its time, and returns when each began and ended. Every revision is
// audited. The clock must be virtual.
func run(ctx context.Context, nodes int, jobs []job, how way) (spans []span, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &world{jobs: jobs, begun: make([]bool, len(jobs)), spans: make([]span, len(jobs)), begin: time.Now(), all: make(chan struct{}), holds: make(map[string]*tasksocket.Holds)}
	keep := server.DefaultPolicy()
	keep.Interval, keep.Gap, keep.KeepMin, keep.KeepAge = 10*time.Minute, time.Minute, 20*time.Minute, 20*time.Minute
	all := hollow.Nodes(nodes, perNode)
	for i := range all {
		all[i].GPUs = perNode
		w.holds[all[i].Name] = tasksocket.NewHolds()
	}
	if w.c, err = hollow.Start(ctx, hollow.Config{Nodes: all, Collector: keep, TTL: session, Scheduler: scheduler.Config{Seed: 1}}); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.c.Close()) }()
	client, err := w.c.Client(rig.Namespace)
	if err != nil {
		return nil, err
	}
	if how.interleaved {
		if err := client.Declare(ctx, policyName, place.Interleave{}, ""); err != nil {
			return nil, err
		}
	}
	w.group, ctx = errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w.group.Go(func() error { return w.submit(ctx, client, how) })
	w.group.Go(func() error {
		err := controlplane.ListWatch(ctx, w.c.Store, controlplane.ListWatchOptions{Prefix: controlplane.Prefix(controlplane.Statuses)}, func(u controlplane.Update) error { return w.see(ctx, u) })
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
	w.group.Go(func() error {
		defer stop()
		select {
		case <-w.all:
		case <-ctx.Done():
		}
		return nil
	})
	if err := w.group.Wait(); err != nil {
		return nil, err
	}
	return w.spans, w.c.Audit(context.WithoutCancel(ctx))
}

// submit submits the jobs.
func (w *world) submit(ctx context.Context, client *esl.Client, how way) error {
	for i, j := range w.jobs {
		if err := rig.Sleep(ctx, time.Until(w.begin.Add(j.At))); err != nil {
			return err
		}
		var policies []esl.Policy
		if how.interleaved {
			as := j.declared()
			if how.unmatched {
				as = "data=1s,compute=1s,communicate=1s"
			}
			policies = append(policies, esl.Use{Name: policyName, As: as})
		}
		task := controlplane.Submission{
			ID: fmt.Sprintf("j%d-0", i), Spec: &types.Spec{Image: "escher.local/hollow"},
			Task: types.Task{Name: "train", Requests: types.NewRequests(map[string]types.Quantity{string(types.GPU): how.gpu})},
		}
		if _, err := client.Submit(ctx, controlplane.Job{ID: fmt.Sprintf("j%d", i), Tasks: []controlplane.Submission{task}}, policies...); err != nil {
			return err
		}
	}
	return nil
}

// see starts the work of tasks that run.
func (w *world) see(ctx context.Context, u controlplane.Update) error {
	for _, e := range u.Events {
		k, ok := controlplane.Parse(e.Key)
		var status types.Status
		if !ok || e.Delete || types.Decode(e.Value, &status) != nil {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(k.ID, "j"), "-")
		i, err := strconv.Atoi(name)
		switch {
		case err != nil || i >= len(w.jobs):
		case status.Phase == types.Running && !w.begun[i]:
			w.begun[i] = true
			w.group.Go(func() error { return w.train(ctx, i, k.ID, &status) })
		case status.Phase.Ended():
			if status.Phase != types.Succeeded {
				return types.Errorf(types.Internal, "task %s of the workload %s: %s", k.ID, status.Phase, status.Reason)
			}
			if w.spans[i].End == 0 {
				w.spans[i].End = time.Since(w.begin)
				if w.ended++; w.ended == len(w.jobs) {
					close(w.all)
				}
			}
		}
	}
	return nil
}

// train does the work of a job on its device, and ends its process.
func (w *world) train(ctx context.Context, i int, id string, status *types.Status) error {
	key := controlplane.BindingKey(status.Node, rig.Namespace, id, status.Attempt)
	page, err := w.c.Store.List(ctx, controlplane.ListOptions{Key: key})
	var b types.Binding
	if err == nil && (len(page.KVs) != 1 || types.Decode(page.KVs[0].Value, &b) != nil) {
		err = types.Errorf(types.Internal, "read the binding of %s: there is none", id)
	}
	if err != nil {
		return err
	}
	name := ""
	for _, h := range b.Holds {
		if len(h.Devices) > 0 {
			name = h.Devices[0].ID
		}
	}
	t := turns{w: w, node: status.Node, prefix: policyName + ".interleave.turn." + strings.ReplaceAll(name[strings.Index(name, "=")+1:], "-", "") + "."}
	on, begin := w.devices.of(name), time.Since(w.begin)
	for range w.jobs[i].Iterations {
		for n, phase := range phases() {
			release, err := t.take(ctx, phase)
			if err != nil {
				return err
			}
			lasted := on.work(ctx, phase, w.jobs[i].Phases[n])
			release()
			if !lasted {
				return nil
			}
		}
	}
	w.mu.Lock()
	w.spans[i].Begin, w.spans[i].Shared = begin, t.shared
	w.mu.Unlock()
	return w.c.Finish(ctx, rig.Namespace, id, 0)
}

// turns are the turns of a task in the rotation of its device, as the helper of examples/interleave takes
// them.
type turns struct {
	w            *world
	node, prefix string
	again        time.Time
	shared       bool
}

// take waits for the turn of the task; where there is no rotation, it takes none.
func (t *turns) take(ctx context.Context, phase string) (release func(), err error) {
	if time.Now().Before(t.again) {
		return func() {}, nil
	}
	name := t.prefix + phase
	release, err = t.w.holds[t.node].Take(ctx, types.Resolve(rig.Namespace, name), func(ctx context.Context) (int, error) {
		page, err := t.w.c.Store.List(ctx, controlplane.ListOptions{Key: controlplane.ResourceKey(rig.Namespace, name, t.node)})
		if err == nil && len(page.KVs) == 0 {
			err = types.Errorf(types.NotFound, "there is no rotation")
		}
		return 1, err
	})
	switch {
	case err == nil:
		t.shared = true
		time.Sleep(holdCost)
		return release, nil
	case types.Is(err, types.NotFound) || ctx.Err() != nil:
		t.again = time.Now().Add(again)
		return func() {}, nil
	}
	return nil, err
}
