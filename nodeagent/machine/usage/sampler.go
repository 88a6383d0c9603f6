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
	"github.com/escher-sched/escher/types/measured"
)

const (
	// DefaultEvery is the interval of samples while users query the usage.
	DefaultEvery = 5 * time.Second
	// MinEvery keeps a mistake from using up a processor. Above MaxEvery, rates would be
	// meaningless.
	MinEvery = time.Second
	MaxEvery = time.Minute
	// unseenEvery is the minimum interval when no user has queried for lookedAt: fifty containers
	// take 15 ms.
	unseenEvery = 15 * time.Second
	// keep is how long samples are kept.
	keep = 5 * time.Minute

	// fresh is the maximum age of a sample for a query, freshOfNew that of a sample without a
	// running container. patience limits the wait for a newer sample, and readLimit a single read.
	fresh      = time.Second
	freshOfNew = 50 * time.Millisecond
	patience   = 2 * time.Second
	readLimit  = time.Second
	// lastWait is how long the end waits for hanging reads.
	lastWait = time.Second
)

// Config configures a Sampler. Node, Workloads and Usage must be set.
type Config struct {
	Node string
	// Workloads returns the running attempts of the node, by container id.
	Workloads func() map[string]nodeagent.Workload
	// Usage returns the usage of a container.
	Usage func(ctx context.Context, id string) (cgroup.Stat, error)
	// Devices returns the usage of GPUs and other devices; nil means no devices.
	Devices func(context.Context) ([]devices.Use, error)
	// Every is the interval of samples while users query the usage; 0 means DefaultEvery.
	Every time.Duration
	// Proc and Sys are the mount points of the kernel's file systems; "" means /proc and /sys.
	Proc, Sys string
	// Metrics show the usage; nil means no metrics.
	Metrics *Metrics
	// Log logs failed reads; nil means no log.
	Log *zap.Logger
}

// Sampler samples the usage. Its methods may be called concurrently, and never wait for a hanging
// read.
type Sampler struct {
	cfg     Config
	machine *machine
	readers readers
	meter   *meter
	// wanted requests a sample now.
	wanted chan struct{}

	mu sync.Mutex
	// tasks has the usage of running attempts, by container id; node has that of the machine.
	tasks map[string]*series
	node  ring
	// at is the end of the latest round; next is closed at the end of the next one. asked is the
	// time of the last user query.
	at    time.Time
	next  chan struct{}
	asked time.Time
	// failed counts failed reads; trouble has the keys of reads that fail now.
	failed  int
	trouble map[string]bool
}

// series has the samples of a container.
type series struct {
	workload nodeagent.Workload
	ring     ring
}

// New makes a sampler. Invalid: the interval is out of range. Precondition: this machine has no
// /proc or /sys.
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

// ValidateEvery returns Invalid for an interval out of range.
func ValidateEvery(every time.Duration) error {
	if every < MinEvery || every > MaxEvery {
		return types.Errorf(types.Invalid, "usage-interval: %s is not possible: give %s to %s", every, MinEvery, MaxEvery)
	}
	return nil
}

// Run samples until ctx is done, and returns ctx.Err(). It leaves hanging reads behind.
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

// sample takes samples at intervals and on request.
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

// pause returns the time until the next sample without a request.
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

// drop drops the samples of containers that no longer run.
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

// readMachine samples the machine.
func (s *Sampler) readMachine(ctx context.Context) {
	const key = "the machine"
	stat, err := within(ctx, &s.readers, key, readLimit, s.machine.read)
	now := sample{at: time.Now(), stat: stat}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard(ctx, key, err)
	if stat != (cgroup.Stat{}) { // One value may be unreadable, and the others not.
		s.node = s.node.with(now, s.cfg.Every, keep)
	}
}

// readTask samples a container. One that has just ended has no usage: the agent will learn of the
// end.
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

// heard records whether a read succeeded, and logs the first failure. The caller holds s.mu.
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

// refresh waits for a new sample if the last one is stale, at most for patience.
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
	default: // A request is pending.
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-next:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// stale returns a channel that is closed at the next sample; nil if the last one is fresh. If a
// running container has no sample, fresh means freshOfNew.
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

// Tasks returns the usage of the running attempts, by namespace, task and number, and their history
// after since; a zero since means no history. Attempts that have just started, or cannot be read,
// may be missing.
func (s *Sampler) Tasks(ctx context.Context, since time.Time) []measured.Task {
	s.refresh(ctx)
	return s.known(since)
}

// known is Tasks without waiting. It omits attempts that have ended since the last sample.
func (s *Sampler) known(since time.Time) []measured.Task {
	s.drop(s.cfg.Workloads())
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]measured.Task, 0, len(s.tasks))
	for id, t := range s.tasks {
		a := t.workload.Attempt
		one := measured.Task{Namespace: a.Namespace, Task: a.Task, Attempt: a.Number, Use: t.ring.last()}
		if s.meter != nil {
			one.Devices = s.meter.ofTask(id, t.workload.Devices)
		}
		if !since.IsZero() {
			one.History = t.ring.since(since)
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b measured.Task) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Attempt, b.Attempt))
	})
	return all
}

// Node returns the usage of the machine, and of all its attempts together; see Tasks.
func (s *Sampler) Node(ctx context.Context, since time.Time) measured.Node {
	s.refresh(ctx)
	return s.knownNode(since)
}

// knownNode is Node without waiting.
func (s *Sampler) knownNode(since time.Time) measured.Node {
	n := measured.Node{Node: s.cfg.Node, Processors: runtime.NumCPU(), Tasks: measured.SumOf(s.known(time.Time{}))}
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

// failures returns the number of failed reads.
func (s *Sampler) failures() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}
