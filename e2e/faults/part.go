package faults

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// part is one component, which is restarted whenever it was killed or ended.
type part struct {
	name string
	run  func(ctx context.Context, store controlplane.Store) error
	// died is called when it was killed; nil means nothing happens then.
	died func(l *line)
	// unguarded selects the compares that are left out of its transactions.
	unguarded func(controlplane.Compare) bool

	mu   sync.Mutex
	line *line
	life int
}

// start keeps a component running until the world ends.
func (w *world) start(p *part) {
	w.parts = append(w.parts, p)
	w.goes.Go(func() {
		for w.ctx.Err() == nil {
			w.runOnce(p)
		}
	})
}

// runOnce is one incarnation of a component, and the pause after it.
func (w *world) runOnce(p *part) {
	ctx, kill := context.WithCancel(w.ctx)
	defer kill()
	l := p.open(ctx, w, kill)
	err := supervise.Contain(func() error { return p.run(ctx, l) })
	killed := ctx.Err() != nil
	kill()
	switch {
	case w.ctx.Err() != nil:
		return
	case killed:
		w.note("%s was killed", p.name)
		if p.died != nil {
			p.died(l)
		}
	default:
		w.note("%s ended: %v", p.name, err)
		if c := types.ClassOf(err); c == types.Internal || c == types.Invalid {
			w.fail("%s ended: %v", p.name, err)
		}
	}
	pause := l.draw(3 * time.Second)
	if killed && l.draw(time.Second) < 200*time.Millisecond {
		pause += l.draw(30 * time.Second)
	}
	_ = supervise.Pause(w.ctx, pause) // the caller asks whether the world has ended
}

// open begins an incarnation.
func (p *part) open(ctx context.Context, w *world, kill context.CancelFunc) *line {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life++
	h := fnv.New64a()
	_, _ = h.Write([]byte(p.name))
	p.line = newLine(w, p.name, w.store, rand.New(rand.NewPCG(w.seed, h.Sum64()+uint64(p.life))), ctx, kill)
	p.line.unguarded = p.unguarded
	return p.line
}

// current returns the connection of the current incarnation; nil before the first.
func (p *part) current() *line {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.line
}
