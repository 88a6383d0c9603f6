package scheduler

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Core is a scheduler without I/O and without a clock. It keeps a view of the
// cluster, the queue of what waits, and the transactions in flight:
//
//	Apply    a change was seen          → what it touches is looked at again
//	Next     → transactions to commit   everything in them is assumed: locked
//	Done     one was answered           → confirmed at once, or forgotten and
//	                                      decided anew from what is true then
//
// While a transaction is in flight, nothing else is decided about the nodes, pools,
// tasks and reservations in it, so that transactions of one Core never conflict
// with one another. Nothing is kept that cannot be derived from the view again: a
// Core that starts with the same keys goes on where another one was killed.
type Core struct {
	cfg   Config
	view  *cluster.View
	queue *queue
	rng   *rand.Rand
	now   time.Time
	// newBatch returns the id of the next transaction: never used before, by
	// anybody.
	newBatch func() uint64

	// nodes are the registered ones, in the order in which they came.
	nodes  []*cluster.Node
	states map[*cluster.Node]*nodeState

	// changed is the log of nodes where there is more of something than
	// before; base is the position of its first entry.
	changed []*cluster.Node
	base    int

	// What to look at again.
	bindings     fifo[*cluster.Binding]
	tasks        fifo[*cluster.Task]
	reservations fifo[*cluster.Reservation]

	locks    map[any][]any // locked → what to look at when it is unlocked
	inFlight []*Draft
	behind   []behind
	loss     losses
	accum    accumulator
	// first tells that the next draft is for what waits.
	first bool
	// batch bounds the tasks of a transaction at present: Config.BatchTasks, or less
	// after one was too large.
	batch   int
	retries map[entryKey]int
	// unread is what could not be read, until somebody asks; stuck are the bindings
	// that cannot be released because it is not known what is in use.
	unread []error
	stuck  fifo[*cluster.Binding]
}

// nodeState is what the core remembers of a node besides the view.
type nodeState struct {
	alloc    *types.Allocated // as last looked at
	eligible bool
	session  int64
	pos      int // in Core.nodes, -1 if not registered
}

// behind is a draft that was refused, by a state that the view has not reached.
type behind struct {
	draft    *Draft
	revision int64
}

// New returns a Core that knows nothing yet.
func New(cfg Config) *Core {
	cfg = cfg.withDefaults()
	rng := rand.New(rand.NewPCG(cfg.Seed, hash(cfg.Name)))
	return &Core{
		cfg:      cfg,
		batch:    cfg.BatchTasks,
		view:     cluster.New(),
		queue:    newQueue(),
		rng:      rng,
		newBatch: func() uint64 { return rng.Uint64() | 1 },
		states:   make(map[*cluster.Node]*nodeState),
		locks:    make(map[any][]any),
		retries:  make(map[entryKey]int),
		loss:     losses{tokens: cfg.LossRate},
	}
}

// View returns the cluster as the core sees it, to be read only between calls.
func (c *Core) View() *cluster.View { return c.view }

// Waiting returns how many tasks and reservations wait to be placed.
func (c *Core) Waiting() int { return len(c.queue.entries) }

// InFlight returns how many transactions are not answered yet.
func (c *Core) InFlight() int { return len(c.inFlight) }

// Apply takes in what changed at one revision, or that nothing did up to it.
func (c *Core) Apply(b controlplane.Batch, now time.Time) {
	c.now = now
	c.applyEvents(b.Events, c.view.Apply)
	c.applyEvents(c.view.Reached(b.Revision), c.view.Apply)
	c.catchUp()
}

// Unread returns what could not be read since it was asked last, each once: the keys
// count as absent.
func (c *Core) Unread() []error {
	errs := c.unread
	c.unread = nil
	return errs
}

// applyEvents applies all of the events, and then looks at what they touch: in
// between, the view may be none that ever was.
func (c *Core) applyEvents(events []controlplane.Event, apply func(controlplane.Event) (controlplane.Key, bool, error)) {
	touched := make([]controlplane.Key, 0, len(events))
	for _, e := range events {
		key, changed, err := apply(e)
		if err != nil {
			c.unread = append(c.unread, err)
		}
		if changed {
			touched = append(touched, key)
		}
	}
	for _, key := range touched {
		c.touch(key)
	}
}

// Next returns the transactions to commit now. Every one must be answered by Done.
func (c *Core) Next(now time.Time) []*Draft {
	c.now = now
	c.queue.expire(now)
	c.failOverdue()
	c.retryLost()
	var out []*Draft
	for len(c.inFlight) < c.cfg.InFlight {
		d := newDraft(c.view, c.cfg.Limits, c.newBatch())
		c.fill(d)
		if d.empty() {
			break
		}
		d.seal()
		c.lock(d)
		c.inFlight = append(c.inFlight, d)
		out = append(out, d)
	}
	return out
}

// fill decides what goes into one transaction, in this order: what ends frees what
// begins.
func (c *Core) fill(d *Draft) {
	// 0. What needs a draft of its own and found the last one begun: where things
	//    end all the time, every draft is.
	if c.first {
		c.first = false
		c.accumulate(d)
		if c.placeWaiting(d); !d.empty() {
			return
		}
	}
	// 1. Grants whose reservation is gone: by themselves, for they touch what
	//    their tasks touch.
	c.settleGrants(d)
	// 2. What ended, was lost, is to be stopped, or has started.
	c.settleBindings(d)
	c.cancelTasks(d)
	// 3. What an aged reservation collects, before anybody else has it.
	c.accumulate(d)
	// 4. What waits, by priority and age.
	c.placeWaiting(d)
}

// Wake returns when Next may have something to do though nothing changed; zero if
// never.
func (c *Core) Wake() time.Time {
	next := earlier(c.queue.expire(c.now), c.loss.wake())
	next = earlier(next, c.queue.deadline())
	if len(c.inFlight) < c.cfg.InFlight {
		next = earlier(next, c.accum.wake)
	}
	if next == 0 {
		return time.Time{}
	}
	return time.Unix(0, next)
}

// Done takes in the answer to a draft. A committed one is confirmed at once, ahead
// of the watch. A refused one is forgotten when the view has reached the revision
// of the answer: then what is in it is decided anew. It makes no difference
// whether an unanswered copy of it was committed meanwhile, because by then the
// view shows that.
//
// err, if not nil, tells that the store will never accept it.
func (c *Core) Done(d *Draft, res controlplane.Result, err error, now time.Time) {
	c.now = now
	c.inFlight = slices.DeleteFunc(c.inFlight, func(x *Draft) bool { return x == d })
	switch {
	case err != nil:
		c.setAside(d)
	case res.Committed:
		c.applyEvents(eventsOf(d.Change.Txn(), res.Revision), c.view.ApplyAhead)
		c.confirm(d)
	default:
		c.behind = append(c.behind, behind{d, res.Revision})
		c.catchUp()
	}
}

// eventsOf returns the changes that a committed transaction made.
func eventsOf(txn controlplane.Txn, revision int64) []controlplane.Event {
	events := make([]controlplane.Event, len(txn.Ops))
	for i, op := range txn.Ops {
		events[i] = controlplane.Event{Delete: op.Delete, KV: controlplane.KV{Key: op.Key, Value: op.Value, ModRevision: revision}}
	}
	return events
}

func (c *Core) confirm(d *Draft) {
	if 2*len(d.entries) >= c.batch {
		c.batch = min(c.cfg.BatchTasks, c.batch+max(1, c.batch/8))
	}
	for _, e := range d.entries {
		delete(c.retries, entryKey{e.id, e.bundles})
	}
	c.unlock(d)
	for _, x := range d.held {
		c.again(x)
	}
}

// catchUp forgets the refused drafts whose refusal the view can explain by now.
func (c *Core) catchUp() {
	rest := c.behind[:0]
	for _, b := range c.behind {
		if b.revision > c.view.Revision {
			rest = append(rest, b)
			continue
		}
		c.forget(b.draft)
	}
	clear(c.behind[len(rest):])
	c.behind = rest
}

// forget gives up a refused draft: all that is in it is looked at again.
func (c *Core) forget(d *Draft) {
	for _, e := range d.entries {
		if c.view.Tasks[e.id] != nil || c.view.Reservations[e.id] != nil {
			c.retries[entryKey{e.id, e.bundles}]++
		}
	}
	if d.collecting != nil {
		c.accumulateAgain()
		c.accum.searched = 0 // nothing came of it
	}
	c.giveUp(d)
	c.unlock(d)
	for _, x := range d.held {
		c.again(x)
	}
}

// giveUp wakes what was tried after the draft had taken what it wanted, and found
// too little left: nothing was taken.
func (c *Core) giveUp(d *Draft) {
	for _, p := range d.order {
		if p.node.Eligible() {
			c.wakeNode(p.node)
		}
	}
	for _, x := range d.drawn {
		c.queue.wake(x.pool.ID)
	}
}

// setAside gives up a draft that the store will never accept, because it is too
// large: the next ones are made smaller, and larger again as they are taken. What is alone in it stays out of the queue
// until it, or what it asks for, changes.
func (c *Core) setAside(d *Draft) {
	if d.items > 1 {
		c.batch = max(1, c.batch/2)
		for _, e := range d.entries {
			c.retries[entryKey{e.id, e.bundles}] = solo
		}
		c.forget(d)
		return
	}
	c.giveUp(d)
	c.unlock(d)
}

// again looks at something anew: at what is there under its name by now.
func (c *Core) again(x any) {
	switch x := x.(type) {
	case *cluster.Binding:
		c.bindings.push(x)
	case *cluster.Task:
		if t := c.view.Tasks[x.ID]; t != nil {
			c.touchTask(t)
		}
	case *cluster.Reservation:
		if r := c.view.Reservations[x.ID]; r != nil {
			c.touchReservation(r)
		}
	}
}

// lock keeps everything in the draft from being decided about.
func (c *Core) lock(d *Draft) {
	for _, x := range d.held {
		if _, ok := c.locks[x]; !ok {
			c.locks[x] = nil
		}
	}
	if d.collecting != nil {
		c.accum.keep(c.view, d.collecting.g)
	}
}

// unlock releases what the draft locked and looks at what waited for that.
func (c *Core) unlock(d *Draft) {
	for _, x := range d.held {
		waiters := c.locks[x]
		delete(c.locks, x)
		for _, w := range waiters {
			c.again(w)
		}
	}
	if d.collecting != nil {
		c.accum.kept = nil
	}
	c.queue.unstall()
	if c.accum.skipped {
		c.accumulateAgain()
	}
}

// locked reports whether x is in flight.
func (c *Core) locked(x any) bool {
	_, ok := c.locks[x]
	return ok
}

// whenUnlocked looks at w once x is no longer in flight; false if it is not.
func (c *Core) whenUnlocked(x, w any) bool {
	waiters, ok := c.locks[x]
	if ok {
		c.locks[x] = append(waiters, w)
	}
	return ok
}

// owns reports whether this scheduler takes care of a namespace, and of a task of
// it that names scheduler.
func (c *Core) owns(ns, scheduler string) bool {
	if scheduler != "" {
		return scheduler == c.cfg.Name
	}
	if !c.cfg.Shared {
		return true
	}
	return ownerOf(ns, c.view.Schedulers) == c.cfg.Name
}

// ownerOf picks, for a namespace, one of the live schedulers: the same for all who
// see the same ones, and few change hands when one comes or goes (rendezvous
// hashing, Thaler and Ravishankar 1996).
func ownerOf[T any](ns string, live map[string]T) string {
	best, most := "", uint64(0)
	for name := range live {
		if h := hash(ns + "\x00" + name); best == "" || h > most || h == most && name < best {
			best, most = name, h
		}
	}
	return best
}

// hash is FNV-1a, finished by a mix that makes its high bits depend on all input.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := 0; i < len(s); i++ {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}

func compareResource(a, b types.ResourceID) int { return strings.Compare(string(a), string(b)) }

func compareID(a, b cluster.ID) int {
	if n := strings.Compare(a.Namespace, b.Namespace); n != 0 {
		return n
	}
	return strings.Compare(a.ID, b.ID)
}
