package order

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/collect"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/esl/turn"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/scheduler/search"
	"github.com/escher-sched/escher/types"
)

// A policy is a way to submit the jobs of a workload to Escher. Gangs are gangs under all of them.
type policy struct {
	name string
	// after is how long a gang waits before it collects; 0 means the default.
	after time.Duration
	// placement says which nodes are taken; empty means the default.
	placement search.Choice
	// shared, unless nil, is declared under the name line; of returns the policies of a job.
	shared func(load) esl.Shared
	of     func(job) []esl.Policy
	// priority returns the priority of a job; nil means 0 for all.
	priority func(job) int
	// limited means that jobs have the limits of their run times, and due that they have their deadlines.
	// The policies that need these end jobs that cannot meet them.
	limited, due bool
	// named means that jobs have the names of others that run about as long: Escher estimates by past runs.
	named bool
	// evicts means that jobs may run more than once, and resumes that they go on where they were.
	evicts, resumes bool
}

// line is the name of the shared policy.
const line = "line"

// policies are those of the table.
func policies() []policy {
	inLine := func(job) []esl.Policy { return []esl.Policy{esl.Use{Name: line}} }
	byTenant := func(j job) []esl.Policy { return []esl.Policy{esl.Use{Name: line, As: j.Tenant}} }
	own := func(p esl.Policy) func(job) []esl.Policy { return func(job) []esl.Policy { return []esl.Policy{p} } }
	given := func(j job) int { return j.Priority }
	fair := func(reclaim time.Duration) func(load) esl.Shared {
		return func(l load) esl.Shared {
			s := share.FairShare{Anyone: 1, Reclaim: manifest.Duration(reclaim)}
			if l.machines == nil {
				s.Over = []string{string(types.GPU)} // the only resource that jobs ask for
			}
			return s
		}
	}
	return []policy{
		{name: "default"},
		{name: "spread", placement: search.Spread},
		{name: "collect-30s", after: 30 * time.Second},
		{name: "collect-1h", after: time.Hour},
		{name: "collect-never", after: never},
		{name: "queue", shared: func(load) esl.Shared { return admission.Queue{} }, of: inLine},
		{name: "fair-queue", shared: func(l load) esl.Shared { return admission.FairQueue{Limit: l.slots(), Anyone: 1} }, of: byTenant},
		{name: "fair-share", shared: fair(0), of: byTenant},
		{name: "fair-share-reclaim", shared: fair(10 * time.Minute), of: byTenant, evicts: true},
		{name: "shortest", limited: true, of: own(turn.Shortest{})},
		{name: "shortest-estimated", named: true, of: own(turn.Shortest{})},
		{name: "least-attained", shared: func(load) esl.Shared { return room.LeastAttained{} }, of: inLine, evicts: true, resumes: true},
		{name: "earliest-deadline", limited: true, due: true, of: own(turn.EarliestDeadline{})},
		// Urgent jobs have a higher priority.
		{name: "priority", priority: given},
		{name: "aging", priority: given, of: own(turn.Aging{})},
		{name: "preempt", priority: given, evicts: true, of: func(j job) []esl.Policy {
			if j.Priority > 0 {
				return []esl.Policy{room.Preempt{}}
			}
			return nil
		}},
		// Lengths are known: each doubling is a priority less.
		{name: "priority-by-length", priority: func(j job) int { return 20 - int(math.Log2(j.Runs)) }},
	}
}

// never is longer than any workload takes.
const never = 10000 * time.Hour

const (
	// session is how long the session of a node lasts without renewal: no node is lost, and renewals
	// would be most of the work.
	session = 24 * time.Hour
	// patience is how long all may take, relative to the arrivals and to the work that there is.
	patience = 10
)

// patience is how long the jobs may take.
func (l load) patience() time.Duration {
	work, most := 0.0, 0.0
	for _, used := range newFitting(l).used(func(i int) float64 { return l.jobs[i].Runs }) {
		work = max(work, used)
	}
	for _, j := range l.jobs {
		most = max(most, j.Runs)
	}
	return min(never, time.Duration(patience*(l.jobs[len(l.jobs)-1].At+work+most)*float64(time.Second)))
}

// slots returns about how many jobs run at once, at most.
func (l load) slots() int {
	if l.machines == nil {
		return l.nodes * devices
	}
	one := 0.0
	for _, used := range newFitting(l).used(func(int) float64 { return 1 }) {
		one = max(one, used/float64(len(l.jobs)))
	}
	return int(min(max(1, 1/one), 1<<20))
}

// run submits the jobs, each at its time, to a cluster of hollow nodes, and returns when each began and
// ended. Every revision is audited. The clock must be virtual.
func run(ctx context.Context, l load, p policy) (spans []span, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keep := server.DefaultPolicy()
	keep.Interval, keep.Gap, keep.KeepMin, keep.KeepAge = 10*time.Minute, time.Minute, 20*time.Minute, 20*time.Minute
	nodes := hollow.Nodes(l.nodes, 1)
	for i := range nodes {
		for _, has := range l.capacity(i) {
			nodes[i].Capacity[has.Name] = has.Amount
		}
	}
	behave := hollow.ByCommand
	if p.resumes {
		behave = hollow.Resuming()
	}
	c, err := hollow.Start(ctx, hollow.Config{
		Nodes: nodes, Collector: keep, TTL: session, Behave: behave,
		Scheduler: scheduler.Config{Placement: p.placement, Seed: 1}, Collect: collect.Config{After: p.after},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	client, err := c.Client(rig.Namespace)
	if err != nil {
		return nil, err
	}
	if p.shared != nil {
		if err := client.Declare(ctx, line, p.shared(l), ""); err != nil {
			return nil, err
		}
	}
	seen := newSightings(l.jobs, p.due)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for i, j := range l.jobs {
			if err := rig.Sleep(ctx, time.Until(seen.begin.Add(time.Duration(j.At*float64(time.Second))))); err != nil {
				return err
			}
			if err := submit(ctx, client, i, j, p); err != nil {
				return err
			}
		}
		return nil
	})
	watched, stop := context.WithTimeout(ctx, l.patience())
	defer stop()
	group.Go(func() error {
		err := controlplane.ListWatch(watched, c.Store, controlplane.ListWatchOptions{Prefix: controlplane.Prefix(controlplane.Statuses)}, seen.take)
		if errors.Is(err, errAll) || watched.Err() != nil && ctx.Err() == nil {
			return nil
		}
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return seen.spans, c.Audit(context.WithoutCancel(ctx))
}

// submit submits a job.
func submit(ctx context.Context, client *esl.Client, i int, j job, p policy) error {
	var tasks []controlplane.Submission
	for n, requests := range j.tasks() {
		t := types.Task{Name: "train", Requests: requests}
		if p.priority != nil {
			t.Priority = p.priority(j)
		}
		if p.limited && j.Limit > 0 {
			t.MaxRun = time.Duration(j.Limit * float64(time.Second))
		}
		if p.due {
			t.Deadline = time.Now().Add(time.Duration(j.Deadline * float64(time.Second))).UnixNano()
		}
		tasks = append(tasks, controlplane.Submission{
			ID: fmt.Sprintf("j%d-%d", i, n), Task: t,
			Spec: &types.Spec{Image: "escher.local/hollow", Command: []string{"run", fmt.Sprintf("%.3fs", j.Runs)}},
		})
	}
	var all []esl.Policy
	if p.of != nil {
		all = p.of(j)
	}
	if len(tasks) > 1 {
		all = append(all, gang.Gang{})
	}
	name := ""
	if p.named {
		name = j.Name
	}
	_, err := client.Submit(ctx, controlplane.Job{ID: fmt.Sprintf("j%d", i), Name: name, Tasks: tasks}, all...)
	return err
}

// errAll ends the watch: all jobs have ended.
var errAll = errors.New("all jobs have ended")

// sightings is what the statuses of tasks have shown so far.
type sightings struct {
	begin time.Time
	jobs  []job
	spans []span
	// began and ended are the tasks of each job that have run, and that have ended.
	began, ended []map[string]bool
	n            int // jobs that have ended
	due          bool
}

func newSightings(jobs []job, due bool) *sightings {
	s := &sightings{due: due, begin: time.Now(), jobs: jobs, spans: make([]span, len(jobs)), began: make([]map[string]bool, len(jobs)), ended: make([]map[string]bool, len(jobs))}
	for i := range jobs {
		s.began[i], s.ended[i] = make(map[string]bool), make(map[string]bool)
	}
	return s
}

// take records the statuses of an update.
func (s *sightings) take(u controlplane.Update) error {
	now := time.Since(s.begin).Seconds()
	for _, e := range u.Events {
		k, ok := controlplane.Parse(e.Key)
		var status types.Status
		if !ok || e.Delete || types.Decode(e.Value, &status) != nil {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(k.ID, "j"), "-")
		i, err := strconv.Atoi(name)
		if err != nil || i >= len(s.spans) {
			continue
		}
		tasks := len(s.jobs[i].tasks())
		switch {
		case s.spans[i].Refused:
		case s.due && status.Phase.Ended() && status.Phase != types.Succeeded:
			s.spans[i] = span{Refused: true}
			s.n++
		case status.Phase == types.Running && !s.began[i][k.ID]:
			if s.began[i][k.ID] = true; len(s.began[i]) == tasks {
				s.spans[i].Begin = now
			}
		case status.Phase == types.Succeeded && !s.ended[i][k.ID]:
			if s.ended[i][k.ID] = true; len(s.ended[i]) == tasks {
				arrived := s.jobs[len(s.jobs)-1].At
				s.spans[i].End, s.spans[i].Early = now, max(0, min(now, arrived)-min(now-s.jobs[i].Runs, arrived))
				s.n++
			}
		case status.Phase.Ended() && status.Phase != types.Succeeded:
			return types.Errorf(types.Internal, "task %s of the workload %s: %s", k.ID, status.Phase, status.Reason)
		}
	}
	if s.n == len(s.jobs) {
		return errAll
	}
	return nil
}
