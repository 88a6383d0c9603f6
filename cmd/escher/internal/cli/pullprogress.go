package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
)

// pullEvery is how often a node is asked how far a pull is.
const pullEvery = 300 * time.Millisecond

// drawPull shows how far a node is with the image of a task, on a line of the terminal
// that stop removes again.
func (t *tailing) drawPull(ctx context.Context, c *nodeapi.Client, image string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer t.console.draw("")
		tick := time.NewTicker(pullEvery)
		defer tick.Stop()
		for {
			p, err := c.Pulling(ctx, image)
			if err != nil {
				return // The status of the task says what matters.
			}
			if text := pullText(p); text != "" {
				t.console.draw(text)
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return func() { cancel(); <-done }
}

// pullText says how far a pull is, nothing if that is not known.
func pullText(p nodeapi.Pull) string {
	switch {
	case p.Trouble != "":
		return "trying again: " + p.Trouble
	case p.Unpacking:
		return "unpacking " + humanize.IBytes(uint64(max(0, p.Total)))
	case p.Total > 0:
		return fmt.Sprintf("pulled %s of %s", humanize.IBytes(uint64(max(0, p.Done))), humanize.IBytes(uint64(p.Total)))
	}
	return ""
}
