package nodeagent

import (
	"context"
	"time"

	"github.com/distribution/reference"

	"github.com/escher-sched/escher/controlplane/supervise"
)

// lookAtPulls is the time between two checks for pulls during a start. A shorter pull is not worth
// an event.
const lookAtPulls = 500 * time.Millisecond

// watchPull adds events when the image of a start is being pulled and when it was, until ctx is
// done, which is when the start is over. It calls pulling once a pull is found.
func (t *task) watchPull(ctx context.Context, image string, pulling func()) {
	if named, err := reference.ParseDockerRef(image); err == nil {
		image = named.String()
	}
	var last *Pulling
	for supervise.Pause(ctx, lookAtPulls) == nil {
		now := t.pulling(image)
		t.a.mu.Lock()
		switch {
		case now != nil && last == nil:
			t.note(StepPulling, "%s", image)
			pulling()
		case now == nil && last != nil:
			t.note(StepPulled, "%s: %d MiB in %s", image, last.Total>>20, time.Since(last.Since).Round(time.Second/10))
		}
		t.a.mu.Unlock()
		last = now
	}
}

// pulling returns the pull of an image; nil if there is none.
func (t *task) pulling(image string) *Pulling {
	for _, p := range t.a.cfg.Runtime.Pulling() {
		if p.Name == image {
			return &p
		}
	}
	return nil
}
