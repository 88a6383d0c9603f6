package run

import (
	"context"
	"sync"
	"time"
)

const (
	// askedAgain is how often connection looks for an answer. The store asks for one more often.
	askedAgain = time.Second
	// silentAtMost is the number of times in a row without an answer that mean a lost connection.
	silentAtMost = 4
)

// connection tells when the cluster stops answering the watch of a command, and when it answers
// again. It counts looks instead of time, so that a stopped command does not take its own pause for
// a lost connection.
type connection struct {
	// place names the cluster, and say prints a line.
	place string
	say   func(format string, args ...any)

	mu sync.Mutex
	// begun reports whether there was an answer at all, silent counts the looks since the last one.
	begun  bool
	silent int
}

// heard records an answer.
func (c *connection) heard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent >= silentAtMost {
		c.say("the connection to %s is back", c.place)
	}
	c.begun, c.silent = true, 0
}

// look counts one more look without an answer. After silentAtMost of them, it says that the connection
// is lost.
func (c *connection) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun {
		c.silent++
	}
	if c.silent == silentAtMost {
		c.say("the connection to %s is lost: trying again", c.place)
	}
}

// run looks until ctx is done.
func (c *connection) run(ctx context.Context) {
	tick := time.NewTicker(askedAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.look()
	}
}
