package nodeagent

import (
	"context"
	"time"

	"github.com/distribution/reference"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
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

// bring makes sure that the machine has the image of a task's workdir. Concurrent calls for an image
// share one transfer.
func (t *task) bring(ctx context.Context, image string) error {
	a := t.a
	_, err := a.cfg.Runtime.Layers(ctx, image)
	if !types.Is(err, types.NotFound) {
		return err
	}
	if a.cfg.FetchWorkdir == nil {
		return errNoWorkdir(image)
	}
	a.mu.Lock()
	t.note(StepPulling, "%s", image)
	a.mu.Unlock()
	began := time.Now()
	_, err, _ = a.workdirs.Do(image, func() (any, error) { return nil, a.cfg.FetchWorkdir(ctx, image) })
	if types.Is(err, types.NotFound) {
		return errNoWorkdir(image)
	}
	if err != nil {
		return err
	}
	a.mu.Lock()
	t.note(StepPulled, "%s: from another node, in %s", image, time.Since(began).Round(time.Second/10))
	a.mu.Unlock()
	return nil
}

func errNoWorkdir(image string) error {
	return types.Errorf(types.NotFound, "find workdir %s: no node that answers has it; nodes keep one for %d days after its last use: submit the task again from its directory",
		image, KeepWorkdir/(24*time.Hour))
}
