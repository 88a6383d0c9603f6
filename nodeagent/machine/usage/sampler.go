package usage

import (
	"cmp"
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/nodeagent/machine/devices"
	"github.com/escher-sched/escher/types"
)

const (
	// DefaultEvery is how often samples are taken while somebody looks.
	DefaultEvery = 5 * time.Second
	// MinEvery keeps a mistake from costing a processor; at more than MaxEvery rates would
	// say little.
	MinEvery = time.Second
	MaxEvery = time.Minute
	// unseenEvery is how often they are taken at most when nobody has looked for as long
	// as lookedAt: fifty containers take 15 ms.
	unseenEvery = 15 * time.Second
	// keep is how long they are kept.
	keep = 5 * time.Minute

	// fresh is how old a sample may be for who asks, freshOfNew where it lacks something
	// that runs; patience is how long it is waited for a newer one, and readLimit for a
	// read that is part of it.
	fresh      = time.Second
	freshOfNew = 50 * time.Millisecond
	patience   = 2 * time.Second
	readLimit  = time.Second
	// lastWait is how long the end waits for reads that hang.
	lastWait = time.Second
)

// Config says what is sampled. Node, Workloads and Usage must be set.
type Config struct {
	Node string
	// Workloads returns what runs on the node, by the id of its container.
	Workloads func() map[string]nodeagent.Workload
	// Usage returns what a container uses.
	Usage func(ctx context.Context, id string) (cgroup.Stat, error)
	// Devices returns how much GPUs and the like are used; nil means there are none.
	Devices func(context.Context) ([]devices.Use, error)
	// Every is how often samples are taken while somebody looks; 0 is DefaultEvery.
	Every time.Duration
	// Proc and Sys are where the kernel's file systems are mounted; empty are /proc and
	// /sys.
	Proc, Sys string
	// Metrics show what is known; nil: nobody sees it.
	Metrics *Metrics
	// Log is told of what cannot be read; nil is nobody.
	Log *zap.Logger
}

// Sampler samples. Its methods may be called concurrently, and never wait for a read that
// hangs.
type Sampler struct {
	cfg     Config
	machine *machine
	readers readers
	meter   *meter
	// wanted asks for a sample now.
	wanted chan struct{}

	mu sync.Mutex
	// tasks has what is known of what runs, by the ids of the containers; node is the
	// machine.
	tasks map[string]*series
	node  ring
	// at is when the latest round was over; next is closed when another one is. asked is
	// when somebody looked last.
	at    time.Time
	next  chan struct{}
	asked time.Time
	// failed counts reads that failed; trouble has what cannot be read now.
	failed  int
	trouble map[string]bool
}

// series is what is known of a container.
type series struct {
	workload nodeagent.Workload
	ring     ring
}

// New makes a sampler. Invalid: it is to sample too often. Precondition: this machine
// has no /proc or /sys.
func New(cfg Config) (*Sampler, error) {
	cfg.Every = cmp.Or(cfg.Every, DefaultEvery)
	if err := ValidateEvery(cfg.Every); err != nil {
		return nil, err
	}
	cfg.Proc, cfg.Sys = cmp.Or(cfg.Proc, "/proc"), cmp.Or(cfg.Sys, "/sys")
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	m, err := newMachine(cfg.Proc, cfg.Sys)
	if err != nil {
		return nil, err
	}
	s := &Sampler{
		cfg: cfg, machine: m, wanted: make(chan struct{}, 1), next: make(chan struct{}),
		tasks: make(map[string]*series), trouble: make(map[string]bool),
	}
	if cfg.Devices != nil {
		s.meter = newMeter(cfg.Devices, cfg.Proc, cfg.Log)
	}
	if cfg.Metrics != nil {
		cfg.Metrics.of(s)
	}
	return s, nil
}

// ValidateEvery returns why samples cannot be taken so often.
func ValidateEvery(every time.Duration) error {
	if every < MinEvery || every > MaxEvery {
		return types.Errorf(types.Invalid, "usage-interval: %s is not possible: give %s to %s", every, MinEvery, MaxEvery)
	}
	return nil
}

// Run samples until ctx is done, and returns ctx.Err(). A read that the kernel keeps is
// left behind.
func (s *Sampler) Run(ctx context.Context) error {
	g, ctx := supervise.WithContext(ctx)
	g.Go(func() error { return s.sample(ctx) })
	if s.meter != nil {
		g.Go(func() error { return s.meter.run(ctx) })
	}
	err := g.Wait()
	if !s.readers.await(lastWait) {
		s.cfg.Log.Warn("a read of what is used hangs, and is left behind")
	}
	return err
}

// sample takes samples now and then, and when it is asked to.
func (s *Sampler) sample(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case <-s.wanted:
		}
		s.round(ctx)
		timer.Reset(s.pause())
	}
}

// pause is how long it is until the next sample, if nobody asks.
func (s *Sampler) pause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.asked) < lookedAt {
		return s.cfg.Every
	}
	return max(s.cfg.Every, unseenEvery)
}

// round takes a sample of everything.
func (s *Sampler) round(ctx context.Context) {
	workloads := s.cfg.Workloads()
	s.drop(workloads)
	s.readMachine(ctx)
	for _, id := range slices.Sorted(maps.Keys(workloads)) {
		s.readTask(ctx, id, workloads[id])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Now()
	close(s.next)
	s.next = make(chan struct{})
}

// drop forgets what does not run any more.
func (s *Sampler) drop(workloads map[string]nodeagent.Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.tasks {
		if _, runs := workloads[id]; !runs {
			delete(s.tasks, id)
			delete(s.trouble, id)
		}
	}
}

// readMachine reads what the machine uses.
func (s *Sampler) readMachine(ctx context.Context) {
	const key = "the machine"
	stat, err := within(ctx, &s.readers, key, readLimit, s.machine.read)
	now := sample{at: time.Now(), stat: stat}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard(ctx, key, err)
	if stat != (cgroup.Stat{}) { // Of what cannot be read, the rest still can.
		s.node = s.node.with(now, s.cfg.Every, keep)
	}
}

// readTask reads what a container uses. One that has just ended uses nothing: the agent
// is about to learn of that.
func (s *Sampler) readTask(ctx context.Context, id string, w nodeagent.Workload) {
	stat, err := within(ctx, &s.readers, id, readLimit, func() (cgroup.Stat, error) { return s.cfg.Usage(ctx, id) })
	if types.Is(err, types.NotFound) {
		return
	}
	now := sample{at: time.Now(), started: w.Started, stat: stat}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard(ctx, id, err)
	if err != nil {
		return
	}
	t := s.tasks[id]
	if t == nil {
		t = new(series)
		s.tasks[id] = t
	}
	t.workload, t.ring = w, t.ring.with(now, s.cfg.Every, keep)
}

// heard notes whether something could be read, and says it when that changes. The caller
// holds s.mu.
func (s *Sampler) heard(ctx context.Context, what string, err error) {
	if err == nil || ctx.Err() != nil {
		delete(s.trouble, what)
		return
	}
	s.failed++
	if !s.trouble[what] {
		s.cfg.Log.Warn("what is used cannot be read", zap.Error(err))
	}
	s.trouble[what] = true
}

// refresh waits until there is a new sample, if the last one is not; not longer than its
// patience lasts.
func (s *Sampler) refresh(ctx context.Context) {
	if s.meter != nil {
		s.meter.want()
	}
	next := s.stale(s.cfg.Workloads())
	if next == nil {
		return
	}
	select {
	case s.wanted <- struct{}{}:
	default: // It is asked to already.
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-next:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// stale returns what is closed when there is a newer sample; nil if the last one is good
// enough: new, or at least not old where something runs that it does not have.
func (s *Sampler) stale(workloads map[string]nodeagent.Workload) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = time.Now()
	enough := fresh
	for id := range workloads {
		if s.tasks[id] == nil {
			enough = freshOfNew
		}
	}
	if time.Since(s.at) < enough {
		return nil
	}
	return s.next
}

// Tasks returns what the running attempts use, by namespace, task and number, with what
// they used after since, unless that is zero. Of what has just been started, or cannot be
// read, there may be nothing.
func (s *Sampler) Tasks(ctx context.Context, since time.Time) []Task {
	s.refresh(ctx)
	return s.known(since)
}

// known is Tasks without waiting for anything. What has ended since the last sample is not
// in it.
func (s *Sampler) known(since time.Time) []Task {
	s.drop(s.cfg.Workloads())
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Task, 0, len(s.tasks))
	for id, t := range s.tasks {
		a := t.workload.Attempt
		one := Task{Namespace: a.Namespace, Task: a.Task, Attempt: a.Number, Use: t.ring.last()}
		if s.meter != nil {
			one.Devices = s.meter.ofTask(id, t.workload.Devices)
		}
		if !since.IsZero() {
			one.History = t.ring.since(since)
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Task) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Attempt, b.Attempt))
	})
	return all
}

// Node returns what the machine uses, and its attempts together; see Tasks.
func (s *Sampler) Node(ctx context.Context, since time.Time) Node {
	s.refresh(ctx)
	return s.knownNode(since)
}

// knownNode is Node without waiting for anything.
func (s *Sampler) knownNode(since time.Time) Node {
	n := Node{Node: s.cfg.Node, Processors: runtime.NumCPU(), Tasks: SumOf(s.known(time.Time{}))}
	if s.meter != nil {
		n.Devices = s.meter.all()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.node) > 0 {
		n.Use = s.node.last()
	}
	if !since.IsZero() {
		n.History = s.node.since(since)
	}
	return n
}

// failures returns how many reads failed.
func (s *Sampler) failures() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}
