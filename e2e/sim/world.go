package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/types"
)

// Config configures the cluster of a run.
type Config struct {
	Seed uint64
	// Schedulers is the number of schedulers. Shared lets them divide the namespaces; otherwise
	// they race for everything.
	Schedulers int
	Shared     bool
	// Gather is the schedulers' setting; 0 means 1.
	Gather int
	// Ops bounds the operations of a scheduler's transaction; 0 means the limit of the store.
	Ops   int
	Nodes int
	// Tasks bounds the submitted tasks, Steps the number of steps.
	Tasks, Steps int
	// Unguarded picks compares to leave out of the schedulers' transactions, to see that the run
	// then fails; nil picks none.
	Unguarded func(controlplane.Compare) bool
}

// Failure is the result of a failed run.
type Failure struct {
	// Step is the index of the step, or the number of steps for the settling after them.
	Step     int
	Findings []string
}

// Error lists the findings.
func (f *Failure) Error() string {
	return fmt.Sprintf("step %d: %s", f.Step, strings.Join(f.Findings, "; "))
}

// world is the cluster of a run.
type world struct {
	cfg   Config
	store *memstore.Store
	now   time.Time
	audit *audit.Checker
	// checked is the last revision that the audit saw.
	checked  int64
	findings []string

	members []*member
	agents  []*agent
	apps    *applications
	// drainer is the drainer of the leading server.
	drainer *server.Drainer
	// collectors are two at a time, as when one takes over from another.
	collectors []*server.Collector
	// director directs collections over time.
	director *director
	// late are copies of unanswered transactions that are not committed yet.
	late []controlplane.Txn
	// ending lets all processes end, with success.
	ending bool
	// running is the node of each task's process, by namespace/id.
	running map[string]string

	// seen counts events, to check the coverage of a run.
	seen map[string]int
	// grants are the last seen phases of grants, by key.
	grants map[string]types.GrantPhase

	// trace receives a description of the run; nil means none.
	trace func(format string, args ...any)
}

// Run takes the steps and lets the cluster settle. trace, unless nil, receives a description of the
// run. It returns nil if there are no findings.
func Run(cfg Config, steps []Step, trace func(format string, args ...any)) (*Failure, map[string]int) {
	w := newWorld(cfg, trace)
	w.apps.found()
	return w.run(steps), w.seen
}

func (w *world) run(steps []Step) *Failure {
	trace := w.trace
	for i, s := range steps {
		if trace != nil {
			trace("%s  # ", s)
		}
		if w.do(s); len(w.findings) > 0 {
			return &Failure{i, w.findings}
		}
		if trace != nil {
			trace("\n")
		}
	}
	if w.rest(); len(w.findings) > 0 {
		return &Failure{len(steps), w.findings}
	}
	return nil
}

func newWorld(cfg Config, trace func(string, ...any)) *world {
	w := &world{
		cfg:     cfg,
		store:   memstore.New(memstore.WithoutExpiry()),
		now:     time.Unix(1_000_000, 0),
		audit:   audit.NewChecker(),
		running: make(map[string]string),
		seen:    make(map[string]int),
		grants:  make(map[string]types.GrantPhase),
		trace:   trace,
	}
	w.apps = &applications{w: w}
	for i := range cfg.Nodes {
		w.agents = append(w.agents, newAgent(w, i))
	}
	for i := range 2 {
		w.collectors = append(w.collectors, nil)
		w.startCollector(i)
	}
	w.startDirector()
	for i := range cfg.Schedulers {
		w.members = append(w.members, newMember(w, fmt.Sprintf("s%d", i)))
	}
	return w
}

// do takes one step.
func (w *world) do(s Step) {
	rng := s.rng()
	switch s.Kind {
	case Tick:
		w.tick(rng)
	case Submit:
		w.apps.submit(rng)
	case Reserve:
		w.apps.reserve(rng)
	case Unreserve:
		w.apps.unreserve(rng)
	case SetResource:
		w.apps.setResource(rng)
	case StopTask:
		w.apps.stop(rng)
	case EvictTask:
		w.apps.evict(rng)
	case Cordon:
		w.apps.cordon(rng)
	case ChangeNode:
		pick(w.agents, s.A).change(rng)
	case ChangeNamespace:
		w.apps.changeNamespace(rng)
	case Collect:
		w.apps.collect()
	case Deliver:
		pick(w.members, s.A).deliver(1 + int(s.B%48))
	case Decide:
		pick(w.members, s.A).decide()
	case Commit:
		pick(w.members, s.A).commit(rng)
	case Answer:
		pick(w.members, s.A).answer(rng)
	case Late:
		w.commitLate(rng.IntN(max(1, len(w.late))))
	case CrashScheduler:
		pick(w.members, s.A).crash(rng)
	case Compact:
		w.compact(rng)
	case AgentWatch:
		pick(w.agents, s.A).deliver(1 + int(s.B%64))
	case AgentWork:
		pick(w.agents, s.A).work(rng)
	case AgentCrash:
		pick(w.agents, s.A).crash()
	case NodeLost:
		pick(w.agents, s.A).lose(rng)
	case NodeBack:
		pick(w.agents, s.A).back(rng)
	case Drain:
		w.apps.drain(rng)
	case DrainLook:
		w.drainLook(s.B%4 == 0)
	case DeclareDead:
		pick(w.agents, s.A).declareDead()
	case SubmitOwned:
		w.apps.submitOwned(rng)
	case EndSession:
		w.apps.endSession(rng)
	case CollectorList:
		w.refresh(w.collector(s.A), pick(server.FollowedKinds(), s.B))
	case CollectorLook:
		w.collectorLook(w.collector(s.A))
	case CollectorCrash:
		w.startCollector(w.collector(s.A))
	case DirectorLook:
		w.director.deliver(1 + int(s.B%96))
		w.director.decide(rng)
	case DirectorCrash:
		w.startDirector()
	}
	w.check()
}

func pick[T any](of []T, n uint32) T { return of[int(n)%len(of)] }

// say writes to the trace.
func (w *world) say(format string, args ...any) {
	if w.trace != nil {
		w.trace(format+"; ", args...)
	}
}

// fail records a finding of the simulation itself.
func (w *world) fail(format string, args ...any) {
	w.findings = append(w.findings, fmt.Sprintf(format, args...))
}

// check passes every new revision to the audit.
func (w *world) check() {
	for _, b := range w.store.Events(w.checked + 1) {
		w.checked = b.Revision
		w.count(b)
		for _, f := range w.audit.Apply(b) {
			w.findings = append(w.findings, f.String())
		}
	}
}

// commit commits a transaction at once.
func (w *world) commit(txn controlplane.Txn) controlplane.Result {
	res, err := w.store.Commit(context.Background(), txn)
	if err != nil {
		w.fail("commit: %v", err)
	}
	w.check()
	return res
}

// try commits a change and reports whether its compares held.
func (w *world) try(c *controlplane.Change) bool { return w.commit(c.Txn()).Committed }

// newChange returns a change of an application or agent.
func (w *world) newChange() *controlplane.Change { return controlplane.NewChange(1) }

// get reads a key; Key is empty if it is absent.
func (w *world) get(key string) controlplane.KV {
	page, err := w.store.List(context.Background(), controlplane.ListOptions{Key: key})
	if err != nil {
		w.fail("read: %v", err)
	}
	if len(page.KVs) == 0 {
		return controlplane.KV{}
	}
	return page.KVs[0]
}

// read decodes a key into m and returns its revision; 0 if it is absent.
func (w *world) read(key string, m types.Message) int64 {
	kv := w.get(key)
	if kv.Key == "" {
		return 0
	}
	if err := types.Decode(kv.Value, m); err != nil {
		w.fail("read: %v", err)
	}
	return kv.ModRevision
}

// list reads everything below a prefix.
func (w *world) list(prefix string) controlplane.Page {
	page, err := w.store.List(context.Background(), controlplane.ListOptions{Prefix: prefix})
	if err != nil {
		w.fail("list: %v", err)
	}
	return page
}

// commitLate commits one of the copies still in flight.
func (w *world) commitLate(i int) {
	if i >= len(w.late) {
		return
	}
	txn := w.late[i]
	w.late = slices.Delete(w.late, i, i+1)
	res := w.commit(txn)
	if res.Committed {
		w.seen["late copies committed"]++
	}
	w.say("a late copy arrives: committed=%t at %d", res.Committed, res.Revision)
}

func (w *world) compact(rng interface{ Int64N(int64) int64 }) {
	head := w.store.Revision()
	to := head - rng.Int64N(40)
	if to < 2 {
		return
	}
	// Compacting a compacted revision is refused, without harm.
	_ = w.store.Compact(context.Background(), to)
	w.say("compacted at %d of %d", to, head)
}

func (w *world) tick(rng interface{ Int64N(int64) int64 }) {
	steps := []time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second}
	w.now = w.now.Add(time.Duration(rng.Int64N(int64(steps[rng.Int64N(int64(len(steps)))])) + 1))
	w.say("%s", w.now.UTC().Format("04:05.000"))
}
