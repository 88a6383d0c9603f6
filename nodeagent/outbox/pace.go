package outbox

import "time"

const (
	// gap is the time between two transactions of a node with many reports. A transaction per
	// report would be a third of the cost of a short task for the store.
	gap = 100 * time.Millisecond
	// burst is the number of transactions of a quiet node that do not wait.
	burst = 16
)

// pace limits transactions to one per gap in the long run. Up to that rate, and up to burst
// transactions at once, it adds no delay.
type pace struct {
	// full is when a whole burst is available again.
	full time.Time
}

// wait returns how long a transaction that is ready now has to wait; 0 or less means not at all.
func (p *pace) wait(now time.Time) time.Duration {
	return max(0, p.full.Sub(now)) - (burst-1)*gap
}

// sent records a transaction. An urgent one delays the next no more than if it had waited.
func (p *pace) sent(now time.Time) {
	if p.full.Before(now) {
		p.full = now
	}
	p.full = p.full.Add(gap)
	if most := now.Add(burst * gap); p.full.After(most) {
		p.full = most
	}
}
