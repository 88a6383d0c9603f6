package interleave

import (
	"context"
	"sync"
	"time"
)

// device is a simulated device with what belongs to it: each phase uses a part of it, which jobs that
// are in the phase at once divide evenly.
type device struct {
	mu     sync.Mutex
	stages map[string]*stage
}

// stage is one phase of a device. changed is closed when n changes.
type stage struct {
	n       int
	changed chan struct{}
}

// enter changes the number of jobs in a phase.
func (d *device) enter(phase string, by int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stages[phase]
	if s == nil {
		s = &stage{changed: make(chan struct{})}
		d.stages[phase] = s
	}
	s.n += by
	close(s.changed)
	s.changed = make(chan struct{})
}

func (d *device) in(phase string) (n int, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stages[phase].n, d.stages[phase].changed
}

// work does work in a phase that takes so long alone. It reports whether ctx lasted.
func (d *device) work(ctx context.Context, phase string, left time.Duration) bool {
	d.enter(phase, 1)
	defer d.enter(phase, -1)
	for left > 0 {
		n, changed := d.in(phase)
		begin := time.Now()
		done := time.NewTimer(left * time.Duration(n))
		select {
		case <-done.C:
			left = 0
		case <-changed:
			left -= time.Since(begin) / time.Duration(n)
		case <-ctx.Done():
			done.Stop()
			return false
		}
		done.Stop()
	}
	return true
}

// devices are those of a cluster, by name.
type devices struct {
	mu  sync.Mutex
	all map[string]*device
}

func (d *devices) of(name string) *device {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = make(map[string]*device)
	}
	if d.all[name] == nil {
		d.all[name] = &device{stages: make(map[string]*stage)}
	}
	return d.all[name]
}
