//go:build linux

package watchdog

import (
	"bufio"
	"io"
	"sync"
)

// Messages of an agent to its watchdog: the agent ends in order, so no start is under way; or the
// watchdog must leave running containers alone.
const (
	sayOrderly = "orderly"
	sayLeave   = "leave"
)

// agent is the watchdog's view of its agent: the end of a pipe, which the kernel closes however the
// agent ends.
type agent struct {
	mu      sync.Mutex
	ended   bool
	orderly bool
	// gone is closed when the agent has ended, left when the watchdog must end at once.
	gone, left chan struct{}
}

func newAgent(from io.Reader) *agent {
	a := &agent{gone: make(chan struct{}), left: make(chan struct{})}
	go a.listen(from)
	return a
}

func (a *agent) listen(from io.Reader) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		switch lines.Text() {
		case sayOrderly:
			a.mu.Lock()
			a.orderly = true
			a.mu.Unlock()
		case sayLeave:
			close(a.left)
			return
		}
	}
	a.mu.Lock()
	a.ended = true
	a.mu.Unlock()
	close(a.gone)
}

// there reports whether the agent runs and, if not, whether it ended in order.
func (a *agent) there() (there, orderly bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.ended, a.ended && a.orderly
}

// news returns a channel that yields when the agent ends; nil if it has ended.
func (a *agent) news() <-chan struct{} {
	if there, _ := a.there(); there {
		return a.gone
	}
	return nil
}
