package scheduler

import (
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
)

// losses bounds the rate at which attempts on lost nodes are given up. They wait while the number
// of vanished nodes indicates a network failure.
type losses struct {
	tokens float64
	filled time.Time
	parked fifo[*cluster.Binding]
	// grants have bundles that wait for the end of a storm.
	grants   fifo[*cluster.Reservation]
	gone     map[*cluster.Node]time.Time // nodes not alive, with the time they vanished
	nextTry  int64
	lastGone time.Time
	stormy   bool // whether the parked attempts wait for the end of a storm
	// storming is the result of inStorm at asked.
	storming bool
	asked    time.Time
}

// StormNodes is the least number of nodes that must vanish within StormHold to indicate a network
// failure, along with more than half of the present nodes.
const StormNodes = 3

// seen records that the session of a node began or ended.
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

// lossWake is when to recheck parked attempts and grants; 0 means there are none.
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

// mayLose reports whether an attempt may be given up now; otherwise it is parked.
func (c *Core) mayLose(b *cluster.Binding) bool {
	l := &c.loss
	// A node that is back has ended its attempts: nothing to wait for.
	if b.Node.Alive.V != nil {
		return true
	}
	// The storm does not delay attempts on a machine known to be dead, but the rate limit protects
	// the remaining nodes.
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

// inStorm reports whether the number of vanished nodes indicates a network failure: then nothing is
// given up. Nodes gone for StormHold, or dead for good, count neither as gone nor as present.
func (c *Core) inStorm() bool {
	l := &c.loss
	if len(l.gone) < StormNodes || l.asked.Equal(c.now) {
		return len(l.gone) >= StormNodes && l.storming
	}
	recent := 0
	for n, since := range l.gone {
		if c.now.Before(since.Add(c.cfg.StormHold)) && !n.Dead() {
			recent++
		}
	}
	there := len(c.nodes.All()) - (len(l.gone) - recent)
	l.storming, l.asked = recent >= StormNodes && 2*recent > there, c.now
	return l.storming
}

// retryLost rechecks parked attempts when they are due, or when enough nodes are back.
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
	// No more than may be given up now: the others would be parked again.
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
