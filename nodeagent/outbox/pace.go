package outbox

import "time"

const (
	// gap is the time between two transactions of a node that has many reports: one of
	// its own for each would be a third of what a short task costs the store.
	gap = 100 * time.Millisecond
	// burst is how many transactions of a node that was quiet do not wait.
	burst = 16
)

// pace lets through a transaction each gap in the long run. Up to that rate, and for
// so many as burst, nothing waits.
type pace struct {
	// full is when a whole burst could be sent again.
	full time.Time
}

// wait returns how long a transaction has to wait that could go now; 0 or less: not at
// all.
func (p *pace) wait(now time.Time) time.Duration {
	return max(0, p.full.Sub(now)) - (burst-1)*gap
}

// sent notes that a transaction goes. One that could not wait delays the next one no
// more than if it had.
func (p *pace) sent(now time.Time) {
	if p.full.Before(now) {
		p.full = now
	}
	p.full = p.full.Add(gap)
	if most := now.Add(burst * gap); p.full.After(most) {
		p.full = most
	}
}
