package access

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/escher-sched/escher/types"
)

// ErrTooMany is in the chain of the error for a subject that exceeds its limits.
var ErrTooMany = errors.New("it sends too many requests")

// Use bounds what one subject sends: requests a second, how many at once without a pause, and open at a
// time.
type Use struct {
	Rate        rate.Limit
	Burst, Open int
}

// maxGauges bounds the subjects whose use is remembered.
const maxGauges = 10_000

// Gauges measure what subjects use.
type Gauges struct {
	most Use
	now  func() time.Time

	mu     sync.Mutex
	gauges map[string]*gauge
}

// gauge is the use by one subject.
type gauge struct {
	rate *rate.Limiter
	open int
}

// NewGauges returns gauges that allow each subject a use.
func NewGauges(most Use, now func() time.Time) *Gauges {
	return &Gauges{most: most, now: now, gauges: make(map[string]*gauge)}
}

// Message counts a message of a subject, such as one within a request. Unavailable: there are too many.
func (g *Gauges) Message(subject string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.gauge(subject).rate.AllowN(g.now(), 1) {
		return g.tooMany(subject)
	}
	return nil
}

// Idle reports whether a subject has nothing open.
func (g *Gauges) Idle(subject string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.gauges[subject]
	return x == nil || x.open == 0
}

// gauge returns the use by a subject. The caller holds mu.
func (g *Gauges) gauge(subject string) *gauge {
	x := g.gauges[subject]
	if x == nil {
		if len(g.gauges) >= maxGauges {
			for s, old := range g.gauges {
				if old.open == 0 {
					delete(g.gauges, s)
				}
			}
		}
		x = &gauge{rate: rate.NewLimiter(g.most.Rate, g.most.Burst)}
		g.gauges[subject] = x
	}
	return x
}

// tooMany is the error for a subject that exceeds its limits.
func (g *Gauges) tooMany(subject string) error {
	atOnce := g.most.Open
	if atOnce == 0 { // they are only messages
		atOnce = g.most.Burst
	}
	return types.Errorf(types.Unavailable, "%s: %w: at most %g a second, and %d at once: wait a little", subject, ErrTooMany, float64(g.most.Rate), atOnce)
}

// Enter counts a request of a subject, and returns what to call at its end. Unavailable: there are too
// many.
func (g *Gauges) Enter(subject string) (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.gauge(subject)
	if x.open >= g.most.Open || !x.rate.AllowN(g.now(), 1) {
		return nil, g.tooMany(subject)
	}
	x.open++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		x.open--
	}, nil
}
