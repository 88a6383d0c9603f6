package run

import (
	"context"
	"sync"
	"time"

	"github.com/escher-sched/escher/controlplane"
)

const (
	// askedAgain is how often connection looks for an answer.
	askedAgain = time.Second
	// silentBefore is the number of times in a row without an answer after which connection asks for
	// one: a watch of a cluster at rest is silent. silentAtMost of them mean a lost connection.
	silentBefore, silentAtMost = 2, 4
)

// connection tells when the cluster stops answering, and when it answers again. It counts looks
// instead of time, so that a stopped command does not take its own pause for a lost connection.
type connection struct {
	// place names the cluster, and say prints a line. ask returns nil if the cluster answers.
	place string
	say   func(format string, args ...any)
	ask   func(context.Context) error

	mu sync.Mutex
	// begun reports whether there was an answer at all, silent counts the looks since the last one.
	begun  bool
	silent int
}

// newConnection returns the connection of a command to its cluster.
func newConnection(place string, client *controlplane.Client, say func(format string, args ...any)) *connection {
	return &connection{place: place, say: say, ask: func(ctx context.Context) error {
		_, err := client.Store().List(ctx, controlplane.ListOptions{Key: controlplane.EpochKey()})
		return err
	}}
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
// is lost. It reports whether to ask for an answer.
func (c *connection) look() (ask bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun {
		c.silent++
	}
	if c.silent == silentAtMost {
		c.say("the connection to %s is lost: trying again", c.place)
	}
	return c.silent >= silentBefore
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
		if !c.look() {
			continue
		}
		short, cancel := context.WithTimeout(ctx, askedAgain)
		if c.ask(short) == nil {
			c.heard()
		}
		cancel()
	}
}
