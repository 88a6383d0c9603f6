package nodeagent

import (
	"context"
	"time"

	"github.com/distribution/reference"

	"github.com/escher-sched/escher/controlplane/supervise"
)

// lookAtPulls is how often pulls are looked at, while a start is under way: what is
// quicker is not worth a word.
const lookAtPulls = 500 * time.Millisecond

// watchPull notes that the image of a start is being fetched, and that it was, until
// the start is over and with it ctx. It calls pulling when it finds that it is.
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

// pulling returns the pull of an image, nil if there is none.
func (t *task) pulling(image string) *Pulling {
	for _, p := range t.a.cfg.Runtime.Pulling() {
		if p.Name == image {
			return &p
		}
	}
	return nil
}
