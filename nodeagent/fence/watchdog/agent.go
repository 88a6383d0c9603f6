package watchdog

import (
	"bufio"
	"io"
	"sync"
)

// What an agent says to its watchdog: that it ends in order, so that no start is under
// way, or that what runs is to be left alone.
const (
	sayOrderly = "orderly"
	sayLeave   = "leave"
)

// agent is the agent as its watchdog knows it: by the end of a pipe, which the kernel
// closes however the agent ends.
type agent struct {
	mu      sync.Mutex
	ended   bool
	orderly bool
	// gone is closed when it is not there any more, left when the watchdog is to end
	// at once.
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

// there tells whether it is there, and if not, whether it has ended in order.
func (a *agent) there() (there, orderly bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.ended, a.ended && a.orderly
}

// news yields when it is gone, unless that is known already.
func (a *agent) news() <-chan struct{} {
	if there, _ := a.there(); there {
		return a.gone
	}
	return nil
}
