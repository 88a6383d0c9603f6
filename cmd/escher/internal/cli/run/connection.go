package run

import (
	"context"
	"time"

	"github.com/escher-sched/escher/controlplane"
)

const (
	// askedEvery is how often connection asks the cluster, and how long it waits for the answer: a watch
	// of a cluster at rest is silent.
	askedEvery = 2 * time.Second
	// unansweredAtMost is the number of questions in a row without an answer that mean a lost
	// connection.
	unansweredAtMost = 2
)

// connection tells when the cluster stops answering, and when it answers again. It counts questions
// instead of time, so that a stopped command does not take its own pause for a lost connection.
type connection struct {
	// place names the cluster, and say prints a line. ask returns nil if the cluster answers.
	place string
	say   func(format string, args ...any)
	ask   func(context.Context) error
}

// newConnection returns the connection of a command to its cluster.
func newConnection(place string, client *controlplane.Client, say func(format string, args ...any)) *connection {
	return &connection{place: place, say: say, ask: func(ctx context.Context) error {
		_, err := client.Store().List(ctx, controlplane.ListOptions{Key: controlplane.EpochKey()})
		return err
	}}
}

// run asks until ctx is done. Before the first answer it tells nothing: the command itself does.
func (c *connection) run(ctx context.Context) {
	tick := time.NewTicker(askedEvery)
	defer tick.Stop()
	for begun, unanswered := false, 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		short, cancel := context.WithTimeout(ctx, askedEvery)
		err := c.ask(short)
		cancel()
		switch {
		case err == nil:
			if unanswered >= unansweredAtMost {
				c.say("the connection to %s is back", c.place)
			}
			begun, unanswered = true, 0
		case begun && ctx.Err() == nil:
			if unanswered++; unanswered == unansweredAtMost {
				c.say("the connection to %s is lost: trying again", c.place)
			}
		}
	}
}
