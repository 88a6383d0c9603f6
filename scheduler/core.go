package scheduler

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/division"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/loss"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/scheduler/search"
	"github.com/escher-sched/escher/types"
)

// Core is a scheduler without I/O and without a clock. It keeps a view of the cluster, the queue of
// waiting tasks and reservations, and the transactions in flight:
//
//	Apply    a change arrived          → the core rechecks what it touches
//	Next     → transactions to commit   their contents are assumed: locked
//	Done     one was answered           → confirmed at once, or forgotten and
//	                                      decided again on the current state
//
// While a transaction is in flight, the core decides nothing else about its nodes, pools, tasks and
// reservations. So transactions of one Core never conflict with one another. All state derives from
// the view: a Core that starts with the same keys continues where a killed one stopped.
type Core struct {
	cfg   Config
	view  *cluster.View
	folds bool // whether to compact waiting tasks: only with an own view
	queue *queue.Queue
	rng   *rand.Rand
	now   time.Time
	// newBatch returns the id of the next transaction, unique among all schedulers and times.
	newBatch func() uint64

	nodes *search.Nodes
	// states are indexed by Node.Serial.
	states []*nodeState
	hooks  draft.Hooks

	// bindings, tasks and reservations are objects to recheck.
	bindings     queue.Fifo[*cluster.Binding]
	tasks        queue.Fifo[*cluster.Task]
	reservations queue.Fifo[*cluster.Reservation]

	locks    map[any][]any // locked object → objects to recheck once it is unlocked; excludes nodes
	inFlight []*Transaction
	// drawing are the drafts that draw on each pool, in order. depth bounds how many may be in
	// flight.
	drawing  map[*cluster.Pool][]*Transaction
	depth    depth
	repeats  []*Transaction // to send again
	behind   []behind
	loss     *loss.Limiter
	collects collections
	// granting are the grants that take several transactions, as last seen.
	granting map[cluster.ID]*types.Grant
	// first reserves the next draft for waiting work.
	first bool
	// batch is the current bound on the tasks of a transaction: Config.BatchTasks, or less after
	// one was too large.
	batch    int
	retries  map[queue.Key]int32
	later    *queue.Later // tasks to recheck at a time
	division *division.Division
	text     []byte // buffer for the text of a shape, for reuse
	touched  []controlplane.Key
	// unread collects the read errors until Unread is called. stuck are bindings whose release is
	// blocked, because the allocated amounts are unknown.
	unread []error
	stuck  queue.Fifo[*cluster.Binding]
	// aside are the keys set aside. deciding is the object of the current decision, for suspect.
	aside    aside
	deciding any
	// alone are tasks from a draft that the store refused for good as too large.
	alone map[cluster.ID]struct{}
	// accounts are pools whose accounts may be obsolete.
	accounts queue.Fifo[types.ResourceID]
}

// nodeState is what the core stores about a node besides the view.
type nodeState struct {
	alloc    *types.Allocated // as last seen
	eligible bool
	session  int64
	dead     bool
	// waiters are rechecked once the node is no longer in flight.
	waiters []any
}

// behind is a refused draft whose refusing state the view has not reached.
type behind struct {
	draft    *Transaction
	revision int64
	// inVain reports whether the refusal had a cause outside this draft.
	inVain bool
}

// New returns a Core with an empty view.
func New(cfg Config) *Core {
	cfg = cfg.WithDefaults()
	rng := rand.New(rand.NewPCG(cfg.Seed, division.Hash(cfg.Name)))
	c := &Core{
		cfg:      cfg,
		batch:    cfg.BatchTasks,
		queue:    queue.New(),
		rng:      rng,
		newBatch: func() uint64 { return rng.Uint64() | 1 },
		locks:    make(map[any][]any),
		drawing:  make(map[*cluster.Pool][]*Transaction),
		depth:    depth{most: deepest},
		retries:  make(map[queue.Key]int32),
		later:    queue.NewLater(),
		alone:    make(map[cluster.ID]struct{}),
		loss:     loss.New(cfg.LossRate, cfg.StormHold),
	}
	c.lookAt(cluster.New())
	c.folds = true
	return c
}

// lookAt sets the view of the core.
func (c *Core) lookAt(v *cluster.View) {
	c.view, c.folds = v, false
	c.division = division.New(v, c.cfg.Name, c.cfg.Shared)
	c.nodes = search.New(v, search.Config{
		Choice: c.cfg.Placement, Rng: c.rng,
		Part: c.part, ToPlace: c.queue.ToPlace, PoolInFlight: c.poolInFlight,
	})
	c.hooks = c.draftHooks()
}

// part returns the positions of the nodes that this scheduler tries first.
func (c *Core) part() (from, to int) { return c.division.Part(len(c.nodes.All())) }

// View returns the core's view of the cluster. Read it only between calls.
func (c *Core) View() *cluster.View { return c.view }

// Waiting returns the number of tasks and reservations that wait for placement.
func (c *Core) Waiting() int { return c.queue.Len() + c.later.Len() }

// InFlight returns the number of unanswered transactions.
func (c *Core) InFlight() int { return len(c.inFlight) }

// Apply applies the changes of one revision, or the fact that there were none up to it.
func (c *Core) Apply(b controlplane.Batch, now time.Time) {
	c.now = now
	c.applyEvents(b.Events)
	c.applyEvents(c.view.Reached(b.Revision))
	c.catchUp()
}

// Unread returns the read errors since its last call, each once. The keys count as absent.
func (c *Core) Unread() []error {
	errs := c.unread
	c.unread = nil
	return errs
}

// applyEvents applies all events before it rechecks what they touch: in between, the view may show
// a state that never existed.
func (c *Core) applyEvents(events []controlplane.Event) {
	touched := c.touched[:0]
	for i := range events {
		if key, changed := c.apply(&events[i]); changed {
			touched = append(touched, key)
		}
	}
	if cap(touched) <= 1<<12 {
		c.touched = touched // for reuse
	}
	for i := range touched {
		c.deciding = &touched[i]
		c.touch(touched[i])
	}
	c.deciding = nil
}

// Next returns the transactions to commit now. The caller must answer each with Done.
func (c *Core) Next(now time.Time) []*Transaction {
	var out []*Transaction
	for d := c.nextOne(now); d != nil; d = c.nextOne(now) {
		out = append(out, d)
	}
	return out
}

// nextOne returns the next transaction of Next, to send before the following one is decided; nil if
// there is none.
func (c *Core) nextOne(now time.Time) *Transaction {
	c.now = now
	if d := c.toRepeat(); d != nil {
		return d
	}
	c.queue.Expire(now)
	for id, ok := c.later.Due(now); ok; id, ok = c.later.Due(now) {
		if t := c.view.Task(id); t != nil {
			c.touchTask(t)
		}
	}
	c.failOverdue()
	c.loss.Retry(len(c.nodes.All()), now, c.bindings.Push, func(r *cluster.Reservation) { c.again(r) })
	if c.InFlight() >= c.cfg.InFlight || c.gathers() {
		return nil
	}
	d := c.newDraft(c.cfg.Limits, c.newBatch())
	c.fill(d)
	c.deciding = nil
	if d.Empty() {
		return nil
	}
	d.sealCollecting()
	d.Seal()
	c.lock(d)
	c.inFlight = append(c.inFlight, d)
	return c.sends(d)
}

// gathers reports whether pending work waits for an answer, and for further work until then. Many
// small transactions cost the store far more than a few large ones (Nagle, RFC 896). And while most
// nodes of its part are in flight, the few others would get everything, or those that another
// scheduler tries first. With nothing in flight, nothing waits.
func (c *Core) gathers() bool {
	if c.cfg.Gather <= 1 || c.InFlight() == 0 {
		return false
	}
	nodes := 0
	for _, d := range c.inFlight {
		nodes += d.NumNodes()
	}
	from, to := c.part()
	return 2*nodes > to-from || c.bindings.Len()+c.tasks.Len()+c.queue.ToPlace() < c.cfg.Gather
}

// fill decides the contents of one transaction, in this order: ended work frees capacity for new
// work.
func (c *Core) fill(d *Transaction) {
	// 0. Work that needs an empty draft and found the last one begun. With constant task ends,
	//    every draft is.
	if c.first {
		c.first = false
		c.grantInParts(d)
		c.collectAll(d)
		if c.placeWaiting(d); !d.Empty() {
			return
		}
	}
	// 1. Grants whose reservation is gone: in a draft of their own, as they touch what their tasks
	//    touch.
	c.settleGrants(d)
	// 2. Bindings that ended, were lost, must stop, or have started.
	c.settleBindings(d)
	c.cancelTasks(d)
	c.closeAccounts(d)
	// 3. Reservations being granted or collected, before other work takes the capacity.
	c.grantInParts(d)
	c.collectAll(d)
	// 4. Waiting work, by priority and age.
	c.placeWaiting(d)
}

// Wake returns when Next may have work without a further change; zero means never.
func (c *Core) Wake() time.Time {
	next := earlier(c.queue.Expire(c.now), c.loss.Wake())
	next = earlier(next, c.queue.Deadline())
	next = earlier(next, c.later.Next())
	if c.InFlight() < c.cfg.InFlight && !c.gathers() {
		next = earlier(next, c.collects.wake)
	}
	if next == 0 {
		return time.Time{}
	}
	return time.Unix(0, next)
}

// Done takes the answer to a draft. A committed draft is confirmed at once, ahead of the watch. A
// refused draft is forgotten once the view has reached the revision of the answer; its contents are
// then decided again. An unanswered copy that was committed meanwhile does no harm, because the
// view shows it by then.
//
// A non-nil err means that the store will never accept the draft.
func (c *Core) Done(d *Transaction, res controlplane.Result, err error, now time.Time) {
	c.now = now
	if err == nil && c.isPending(d, res) {
		return
	}
	c.inFlight = except(c.inFlight, d)
	d.open = false
	committed := err == nil && res.Committed && !d.doomed
	switch {
	case err != nil:
		c.setAside(d)
	case committed:
		c.committed(d, res.Revision)
		c.confirm(d)
	default:
		c.behind = append(c.behind, behind{d, res.Revision, d.isInVain(res)})
		c.catchUp()
	}
	c.answered(d, committed, res.Revision)
}

// committed applies the changes of a draft and rechecks what they touch.
func (c *Core) committed(d *Transaction, revision int64) {
	for _, k := range c.view.Committed(revision, d.Writes()) {
		if k.Kind == controlplane.Allocated && k.Where == "" && !d.Returns() {
			c.took(c.view.Nodes[k.Node])
			continue
		}
		c.touch(k)
	}
}

func (c *Core) confirm(d *Transaction) {
	if 2*max(len(d.entries), d.Len()) >= c.batch {
		c.batch = min(c.cfg.BatchTasks, c.batch+max(1, c.batch/8))
	}
	for _, e := range d.entries {
		delete(c.retries, e.Key())
	}
	if len(c.alone) > 0 {
		for _, x := range d.Decided() {
			if t, ok := x.(*cluster.Task); ok {
				delete(c.alone, t.ID)
			}
		}
	}
	c.unlock(d)
	c.lookAgain(d.Decided())
}

// catchUp forgets the refused drafts whose refusal the view now explains.
func (c *Core) catchUp() {
	rest := c.behind[:0]
	for _, b := range c.behind {
		if b.revision > c.view.Revision {
			rest = append(rest, b)
			continue
		}
		c.forget(b.draft, b.inVain)
	}
	clear(c.behind[len(rest):])
	c.behind = rest
}

// forget gives up a refused draft and rechecks all of its contents. inVain means that it does not
// count as a conflict.
func (c *Core) forget(d *Transaction, inVain bool) {
	for _, e := range d.entries {
		if inVain {
			break
		}
		if c.view.Task(e.ID) != nil || c.view.Reservations[e.ID] != nil {
			c.retries[e.Key()]++
		}
	}
	if d.collecting != nil {
		c.collectAgain()
		if s := c.collects.directed[d.collecting.x.key()]; s != nil {
			s.places.at = 0 // the collection had no effect
		}
	}
	c.giveUp(d)
	c.unlock(d)
	c.lookAgain(d.Decided())
}

// giveUp wakes waiting work that failed because the draft had reserved capacity: that capacity is
// free after all.
func (c *Core) giveUp(d *Transaction) {
	for n := range d.Nodes() {
		c.nodes.Note(nil, n)
		if n.Eligible() {
			c.wakeNode(n)
		}
	}
	for p := range d.Draws() {
		c.queue.Wake(p.ID)
	}
}

// setAside gives up a draft that the store will never accept because it is too large. Later drafts
// are smaller, and grow again with each success. At the smallest size, each task of the draft is
// decided alone. A task that is alone in a refused draft stays out of the queue until it, or
// something it requests, changes.
func (c *Core) setAside(d *Transaction) {
	c.refuse(d)
	if d.Len() > 1 {
		c.batch = max(1, c.batch/2)
		for _, e := range d.entries {
			c.retries[e.Key()] = solo
		}
		for _, x := range d.Decided() {
			if t, ok := x.(*cluster.Task); ok && d.Len() <= 2*c.batch {
				c.alone[t.ID] = struct{}{}
			}
		}
		c.forget(d, false)
		return
	}
	c.giveUp(d)
	c.unlock(d)
}

// again rechecks the current object of the same name.
func (c *Core) again(x any) {
	switch x := x.(type) {
	case *cluster.Binding:
		c.bindings.Push(x)
	case *cluster.Task:
		if t := c.view.Task(x.ID); t != nil {
			c.touchTask(t)
		}
	case *cluster.Reservation:
		if r := c.view.Reservations[x.ID]; r != nil {
			c.touchReservation(r)
		}
	case types.ResourceID:
		c.touchPool(x)
	}
}

// earlier returns the earlier of two times, where 0 means never.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func compareResource(a, b types.ResourceID) int { return strings.Compare(string(a), string(b)) }
