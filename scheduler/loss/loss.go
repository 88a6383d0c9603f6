// Package loss bounds the rate at which attempts on lost nodes are given up. It is pure: it stores
// what waits, and is told the time.
package loss

import (
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/queue"
)

// Limiter decides when attempts on lost nodes may be given up. They wait while the number of vanished
// nodes indicates a network failure.
type Limiter struct {
	rate   float64 // attempts a second
	hold   time.Duration
	tokens float64
	filled time.Time
	parked queue.Fifo[*cluster.Binding]
	// grants have bundles that wait for the end of a storm.
	grants   queue.Fifo[*cluster.Reservation]
	gone     map[*cluster.Node]time.Time // nodes not alive, with the time they vanished
	nextTry  int64
	lastGone time.Time
	stormy   bool // whether the parked attempts wait for the end of a storm
	// storming is the result of Storm at asked.
	storming bool
	asked    time.Time
}

// New returns a limiter of rate attempts a second, which holds them back for hold in a storm.
func New(rate float64, hold time.Duration) *Limiter {
	return &Limiter{rate: rate, hold: hold, tokens: rate, gone: make(map[*cluster.Node]time.Time)}
}

// StormNodes is the least number of nodes that must vanish within the hold to indicate a network
// failure, along with more than half of the present nodes.
const StormNodes = 3

// Seen records that the session of a node began or ended.
func (l *Limiter) Seen(n *cluster.Node, now time.Time) {
	l.asked = time.Time{}
	if n.Alive.V != nil || n.Info.V == nil {
		delete(l.gone, n)
		return
	}
	l.gone[n] = now
	l.lastGone = now
}

// Wake is when to recheck parked attempts and grants; 0 means there are none.
func (l *Limiter) Wake() int64 {
	next := int64(0)
	if l.parked.Len() > 0 {
		next = l.nextTry
	}
	if l.grants.Len() > 0 {
		if at := l.lastGone.Add(l.hold).UnixNano(); next == 0 || at < next {
			next = at
		}
	}
	return next
}

// May reports whether an attempt may be given up now, among so many registered nodes; otherwise it is
// parked.
func (l *Limiter) May(b *cluster.Binding, nodes int, now time.Time) bool {
	// A node that is back has ended its attempts: nothing to wait for.
	if b.Node.Alive.V != nil {
		return true
	}
	// The storm does not delay attempts on a machine known to be dead, but the rate limit protects
	// the remaining nodes.
	if l.Storm(nodes, now) && !b.Node.Dead() {
		l.park(b, l.lastGone.Add(l.hold))
		l.stormy = true
		return false
	}
	l.tokens = min(l.rate, l.tokens+now.Sub(l.filled).Seconds()*l.rate)
	l.filled = now
	if l.tokens < 1 {
		l.park(b, now.Add(time.Duration(float64(time.Second)/l.rate)))
		return false
	}
	l.tokens--
	return true
}

func (l *Limiter) park(b *cluster.Binding, until time.Time) {
	l.parked.Push(b)
	l.nextTry = until.UnixNano()
}

// Storm reports whether the number of vanished nodes indicates a network failure: then nothing is
// given up. Nodes gone for that long, or dead for good, count neither as gone nor as present.
func (l *Limiter) Storm(nodes int, now time.Time) bool {
	if len(l.gone) < StormNodes || l.asked.Equal(now) {
		return len(l.gone) >= StormNodes && l.storming
	}
	recent := 0
	for n, since := range l.gone {
		if now.Before(since.Add(l.hold)) && !n.Dead() {
			recent++
		}
	}
	there := nodes - (len(l.gone) - recent)
	l.storming, l.asked = recent >= StormNodes && 2*recent > there, now
	return l.storming
}

// HoldBack stores a reservation until the storm is over.
func (l *Limiter) HoldBack(r *cluster.Reservation) { l.grants.Push(r) }

// Retry passes on parked attempts when they are due, or when enough nodes are back, and the held
// reservations once the storm is over.
func (l *Limiter) Retry(nodes int, now time.Time, attempt func(*cluster.Binding), reservation func(*cluster.Reservation)) {
	if l.grants.Len() > 0 && !l.Storm(nodes, now) {
		l.grants.Drain(func(r *cluster.Reservation) bool { reservation(r); return true })
	}
	ended := l.stormy && !l.Storm(nodes, now)
	if l.parked.Len() == 0 || now.UnixNano() < l.nextTry && !ended {
		return
	}
	l.stormy = false
	// No more than may be given up now: the others would be parked again.
	n := 1 + int(min(l.rate, l.tokens+now.Sub(l.filled).Seconds()*l.rate))
	l.parked.Drain(func(b *cluster.Binding) bool {
		if n == 0 {
			return false
		}
		n--
		attempt(b)
		return true
	})
	l.nextTry = now.Add(time.Duration(float64(time.Second) / l.rate)).UnixNano()
}
