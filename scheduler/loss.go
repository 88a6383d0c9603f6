package scheduler

import (
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
)

// losses bounds the rate at which attempts on lost nodes are given up. They wait
// while so many nodes are gone at once that it must be the network.
type losses struct {
	tokens float64
	filled time.Time
	parked fifo[*cluster.Binding]
	// grants are those of which bundles wait for the end of a storm.
	grants   fifo[*cluster.Reservation]
	gone     map[*cluster.Node]time.Time // not alive, since when
	nextTry  int64
	lastGone time.Time
	stormy   bool // what is parked waits for the end of a storm
	// storming is what inStorm found at asked.
	storming bool
	asked    time.Time
}

// storm is how many nodes have to vanish within StormHold before it is taken for the
// network's doing: more than half of those that were there, and at least three.
const storm = 3

// seen notes that the session of a node began or ended.
func (l *losses) seen(n *cluster.Node, now time.Time) {
	if l.gone == nil {
		l.gone = make(map[*cluster.Node]time.Time)
	}
	l.asked = time.Time{}
	if n.Alive.V != nil || n.Info.V == nil {
		delete(l.gone, n)
		return
	}
	l.gone[n] = now
	l.lastGone = now
}

// lossWake is when parked attempts and grants are to be looked at again; 0 if there are
// none.
func (c *Core) lossWake() int64 {
	next := int64(0)
	if len(c.loss.parked.list) > 0 {
		next = c.loss.nextTry
	}
	if len(c.loss.grants.list) > 0 {
		next = earlier(next, c.loss.lastGone.Add(c.cfg.StormHold).UnixNano())
	}
	return next
}

// mayLose reports whether an attempt may be given up now; if not it is parked.
func (c *Core) mayLose(b *cluster.Binding) bool {
	l := &c.loss
	// A node that is back has ended its attempts: nothing to wait for.
	if b.Node.Alive.V != nil {
		return true
	}
	// Of a machine that is known to be dead nothing is waited for, but the others still
	// must not drown.
	if c.inStorm() && !b.Node.Dead() {
		l.park(b, l.lastGone.Add(c.cfg.StormHold))
		l.stormy = true
		return false
	}
	l.tokens = min(c.cfg.LossRate, l.tokens+c.now.Sub(l.filled).Seconds()*c.cfg.LossRate)
	l.filled = c.now
	if l.tokens < 1 {
		l.park(b, c.now.Add(time.Duration(float64(time.Second)/c.cfg.LossRate)))
		return false
	}
	l.tokens--
	return true
}

func (l *losses) park(b *cluster.Binding, until time.Time) {
	l.parked.push(b)
	l.nextTry = until.UnixNano()
}

// inStorm reports whether so many nodes have vanished at once that it must be the network:
// nothing is given up then. Nodes that have been gone for StormHold, or are dead for good,
// count no longer, neither as gone nor as there.
func (c *Core) inStorm() bool {
	l := &c.loss
	if len(l.gone) < storm || l.asked.Equal(c.now) {
		return len(l.gone) >= storm && l.storming
	}
	recent := 0
	for n, since := range l.gone {
		if c.now.Before(since.Add(c.cfg.StormHold)) && !n.Dead() {
			recent++
		}
	}
	there := len(c.nodes) - (len(l.gone) - recent)
	l.storming, l.asked = recent >= storm && 2*recent > there, c.now
	return l.storming
}

// retryLost looks at parked attempts again when it is time, or when enough nodes
// came back.
func (c *Core) retryLost() {
	l := &c.loss
	if len(l.grants.list) > 0 && !c.inStorm() {
		l.grants.drain(func(r *cluster.Reservation) bool { c.again(r); return true })
	}
	ended := l.stormy && !c.inStorm()
	if len(l.parked.list) == 0 || c.now.UnixNano() < l.nextTry && !ended {
		return
	}
	l.stormy = false
	// No more than may be given up now: the others would only be parked again.
	n := 1 + int(min(c.cfg.LossRate, l.tokens+c.now.Sub(l.filled).Seconds()*c.cfg.LossRate))
	l.parked.drain(func(b *cluster.Binding) bool {
		if n == 0 {
			return false
		}
		n--
		c.bindings.push(b)
		return true
	})
	l.nextTry = c.now.Add(time.Duration(float64(time.Second) / c.cfg.LossRate)).UnixNano()
}
