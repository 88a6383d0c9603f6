package scheduler

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/heap"
	"github.com/escher-sched/escher/controlplane/match"
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
	cfg    Config
	view   *cluster.View
	folds  bool // what waits, as the view is its own
	queue  *queue
	window window
	rng    *rand.Rand
	now    time.Time
	// newBatch returns the id of the next transaction: never used before, by
	// anybody.
	newBatch func() uint64

	// nodes are the registered ones, in the order in which they came.
	nodes []*cluster.Node
	// states are by Node.Serial.
	states []*nodeState
	// index is by the place of a node in nodes; labelled are the nodes that a placement
	// other than by name allows.
	index    match.Index
	blank    *Draft // which changes nothing: what the view has
	cordons  int    // how many nodes are cordoned
	labelled map[types.ResourceID][]*cluster.Node

	// changed is the log of nodes where there is more of something than
	// before; base is the position of its first entry.
	changed []*cluster.Node
	base    int

	// What to look at again.
	bindings     fifo[*cluster.Binding]
	tasks        fifo[*cluster.Task]
	reservations fifo[*cluster.Reservation]

	locks    map[any][]any // locked → what to look at when it is unlocked; not of nodes
	inFlight []*Draft
	// drawing are the drafts that draw on each pool, in their order, depth is how many
	// they may be in flight.
	drawing map[*cluster.Pool][]*Draft
	depth   depth
	repeats []*Draft // to be sent again
	behind  []behind
	loss    losses
	accum   accumulator
	// granting are the grants in several transactions, as last looked at.
	granting map[cluster.ID]*types.Grant
	// first tells that the next draft is for what waits.
	first bool
	// batch bounds the tasks of a transaction at present: Config.BatchTasks, or less
	// after one was too large.
	batch   int
	retries map[entryKey]int32
	// postponed wait until they may be bound again, awaited says when that is. A task may be in
	// it that does not wait any more.
	postponed heap.Heap[postponement]
	awaited   map[cluster.ID]int64
	shared    shared
	text      []byte // of a shape, to be used again
	touched   []controlplane.Key
	// unread is what could not be read, until somebody asks; stuck are the bindings
	// that cannot be released because it is not known what is in use.
	unread []error
	stuck  fifo[*cluster.Binding]
	// aside are the keys that are set aside; deciding is what the core decides about now,
	// for suspect.
	aside    aside
	deciding any
	// alone are tasks with something that the store refused for good together with others.
	alone map[cluster.ID]struct{}
	// accounts are those of pools that may be of no use any more.
	accounts fifo[types.ResourceID]
}

// nodeState is what the core remembers of a node besides the view.
type nodeState struct {
	alloc    *types.Allocated // as last looked at
	eligible bool
	session  int64
	dead     bool
	pos      int // in Core.nodes, -1 if not registered
	// placements are those that its labels make.
	placements []types.ResourceID
	cordoned   bool
	// locked tells that it is in flight; waiters are to be looked at when it is not.
	locked  bool
	waiters []any
	// keys are its own: many transactions compare them.
	keys   nodeKeys
	itself [1]*cluster.Node
}

// nodeKeys are the keys of a node that every bind compares.
type nodeKeys struct{ node, alive, allocated string }

// behind is a draft that was refused, by a state that the view has not reached.
type behind struct {
	draft    *Draft
	revision int64
	// inVain tells that it was not for what is in it.
	inVain bool
}

// New returns a Core that knows nothing yet.
func New(cfg Config) *Core {
	cfg = cfg.withDefaults()
	rng := rand.New(rand.NewPCG(cfg.Seed, hash(cfg.Name)))
	c := &Core{
		cfg:      cfg,
		batch:    cfg.BatchTasks,
		queue:    newQueue(),
		rng:      rng,
		newBatch: func() uint64 { return rng.Uint64() | 1 },
		labelled: make(map[types.ResourceID][]*cluster.Node),
		locks:    make(map[any][]any),
		drawing:  make(map[*cluster.Pool][]*Draft),
		depth:    depth{most: deepest},
		retries:  make(map[entryKey]int32),
		awaited:  make(map[cluster.ID]int64),
		alone:    make(map[cluster.ID]struct{}),
		loss:     losses{tokens: cfg.LossRate},
	}
	c.lookAt(cluster.New())
	c.folds = true
	return c
}

// lookAt makes v what the core sees.
func (c *Core) lookAt(v *cluster.View) { c.view, c.blank, c.folds = v, &Draft{view: v}, false }

// View returns the cluster as the core sees it, to be read only between calls.
func (c *Core) View() *cluster.View { return c.view }

// Waiting returns how many tasks and reservations wait to be placed.
func (c *Core) Waiting() int { return c.queue.len() + len(c.awaited) }

// InFlight returns how many transactions are not answered yet.
func (c *Core) InFlight() int { return len(c.inFlight) }

// Apply takes in what changed at one revision, or that nothing did up to it.
func (c *Core) Apply(b controlplane.Batch, now time.Time) {
	c.now = now
	c.applyEvents(b.Events)
	c.applyEvents(c.view.Reached(b.Revision))
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
func (c *Core) applyEvents(events []controlplane.Event) {
	touched := c.touched[:0]
	for i := range events {
		if key, changed := c.apply(&events[i]); changed {
			touched = append(touched, key)
		}
	}
	if cap(touched) <= 1<<12 {
		c.touched = touched // to be used again
	}
	for i := range touched {
		c.deciding = &touched[i]
		c.touch(touched[i])
	}
	c.deciding = nil
}

// Next returns the transactions to commit now. Every one must be answered by Done.
func (c *Core) Next(now time.Time) []*Draft {
	var out []*Draft
	for d := c.nextOne(now); d != nil; d = c.nextOne(now) {
		out = append(out, d)
	}
	return out
}

// nextOne returns one transaction of those that Next returns, to be sent before the next
// one is decided; nil if there is none.
func (c *Core) nextOne(now time.Time) *Draft {
	c.now = now
	if d := c.toRepeat(); d != nil {
		return d
	}
	c.queue.expire(now)
	c.resume()
	c.failOverdue()
	c.retryLost()
	if c.InFlight() >= c.cfg.InFlight || c.gathers() {
		return nil
	}
	d := c.newDraft(c.cfg.Limits, c.newBatch())
	c.fill(d)
	c.deciding = nil
	if d.empty() {
		return nil
	}
	d.seal()
	c.lock(d)
	c.inFlight = append(c.inFlight, d)
	return c.sends(d)
}

// gathers reports whether what is to be done waits for an answer, and for what comes until
// then: many small transactions cost the store far more than a few large ones (Nagle,
// RFC 896), and while most nodes of its part are in flight the few others would get
// everything, or those that another scheduler tries first. With nothing in flight nothing
// waits.
func (c *Core) gathers() bool {
	if c.cfg.Gather <= 1 || c.InFlight() == 0 {
		return false
	}
	nodes := 0
	for _, d := range c.inFlight {
		nodes += len(d.order)
	}
	from, to := c.part()
	return 2*nodes > to-from || c.bindings.len()+c.tasks.len()+c.queue.toPlace < c.cfg.Gather
}

// fill decides what goes into one transaction, in this order: what ends frees what
// begins.
func (c *Core) fill(d *Draft) {
	// 0. What needs a draft of its own and found the last one begun: where things
	//    end all the time, every draft is.
	if c.first {
		c.first = false
		c.grantInParts(d)
		c.collectAtOnce(d)
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
	c.closeAccounts(d)
	// 3. What is being granted, collected at once, or by an aged reservation, before anybody else has it.
	c.grantInParts(d)
	c.collectAtOnce(d)
	c.accumulate(d)
	// 4. What waits, by priority and age.
	c.placeWaiting(d)
}

// Wake returns when Next may have something to do though nothing changed; zero if
// never.
func (c *Core) Wake() time.Time {
	next := earlier(c.queue.expire(c.now), c.lossWake())
	next = earlier(next, c.queue.deadline())
	next = earlier(next, c.resumes())
	if c.InFlight() < c.cfg.InFlight && !c.gathers() {
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

// committed applies what a draft changed, and looks at what that touches.
func (c *Core) committed(d *Draft, revision int64) {
	for _, k := range c.view.Committed(revision, d.writes) {
		if k.Kind == controlplane.Allocated && k.Where == "" && !d.gave {
			c.took(c.view.Nodes[k.Node])
			continue
		}
		c.touch(k)
	}
}

func (c *Core) confirm(d *Draft) {
	if 2*max(len(d.entries), d.items) >= c.batch {
		c.batch = min(c.cfg.BatchTasks, c.batch+max(1, c.batch/8))
	}
	for _, e := range d.entries {
		delete(c.retries, e.key())
	}
	if len(c.alone) > 0 {
		for _, x := range d.held {
			if t, ok := x.(*cluster.Task); ok {
				delete(c.alone, t.ID)
			}
		}
	}
	c.unlock(d)
	c.lookAgain(d.held)
}

// catchUp forgets the refused drafts whose refusal the view can explain by now.
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

// forget gives up a refused draft: all that is in it is looked at again. What was in vain
// does not count as a conflict.
func (c *Core) forget(d *Draft, inVain bool) {
	for _, e := range d.entries {
		if inVain {
			break
		}
		if c.view.Task(e.id) != nil || c.view.Reservations[e.id] != nil {
			c.retries[e.key()]++
		}
	}
	if d.collecting != nil {
		c.accumulateAgain()
		c.accum.places.at = 0 // nothing came of it
	}
	c.giveUp(d)
	c.unlock(d)
	c.lookAgain(d.held)
}

// giveUp wakes what was tried after the draft had taken what it wanted, and found
// too little left: nothing was taken.
func (c *Core) giveUp(d *Draft) {
	for _, p := range d.order {
		c.note(nil, p.node)
		if p.node.Eligible() {
			c.wakeNode(p.node)
		}
	}
	for _, x := range d.drawn {
		c.queue.wake(x.pool.ID)
	}
}

// setAside gives up a draft that the store will never accept, because it is too
// large: the next ones are made smaller, and larger again as they are taken. Where they
// cannot be smaller, each task in it is decided about alone. What is alone in a draft stays
// out of the queue until it, or what it asks for, changes.
func (c *Core) setAside(d *Draft) {
	c.refuseAtOnce(d)
	if d.items > 1 {
		c.batch = max(1, c.batch/2)
		for _, e := range d.entries {
			c.retries[e.key()] = solo
		}
		for _, x := range d.held {
			if t, ok := x.(*cluster.Task); ok && d.items <= 2*c.batch {
				c.alone[t.ID] = struct{}{}
			}
		}
		c.forget(d, false)
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
