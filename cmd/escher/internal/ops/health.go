// Package ops serves the metrics, liveness and readiness of a process.
package ops

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/escher-sched/escher/types"
)

// Beat is the pulse of a loop: when the loop ran last, and when it last heard from the other side.
// The zero value has not run yet.
type Beat struct{ ran, heard atomic.Int64 }

// Run records that the loop ran or, if heard is set, that it heard from the other side, the store
// for all loops of Escher.
func (b *Beat) Run(heard bool) {
	now := time.Now().UnixNano()
	if heard {
		b.heard.Store(now)
		return
	}
	b.ran.Store(now)
}

// Stop records that the loop ended gracefully: it counts as not run yet.
func (b *Beat) Stop() {
	b.ran.Store(0)
	b.heard.Store(0)
}

const (
	// stuckAfter is after how long a loop that does not run counts as stuck: each runs every 10 s
	// at least.
	stuckAfter = time.Minute
	// deafAfter is after how long a loop that hears nothing is not ready: an idle watch gets its
	// progress every 10 s at most.
	deafAfter = 30 * time.Second
)

// live returns nil while the loop runs, or has not begun to.
func (b *Beat) live(now time.Time) error {
	if ran := b.ran.Load(); ran != 0 && now.Sub(time.Unix(0, ran)) > stuckAfter {
		return types.Errorf(types.Unavailable, "its loop has not run for %s", now.Sub(time.Unix(0, ran)).Round(time.Second))
	}
	return nil
}

// ready returns nil while the loop hears from the store.
func (b *Beat) ready(now time.Time) error {
	heard := b.heard.Load()
	if heard == 0 {
		return types.Errorf(types.Unavailable, "it has not caught up with the store yet")
	}
	if silent := now.Sub(time.Unix(0, heard)); silent > deafAfter {
		return types.Errorf(types.Unavailable, "it has heard nothing of the store for %s", silent.Round(time.Second))
	}
	return nil
}

// Health is that of a process: the pulse of each of its parts. Its methods may be called
// concurrently.
type Health struct {
	mu    sync.Mutex
	parts []part
	// components are checked too, but do not show that the process has started.
	components []part
	warnings   []warning
}

// warning returns a problem of a ready process; empty if there is none.
type warning struct {
	name string
	text func() string
}

// part has the checks of liveness and readiness.
type part struct {
	name        string
	live, ready func(now time.Time) error
}

// Part returns the pulse of a new part. The process is ready when all parts are.
func (h *Health) Part(name string) *Beat {
	b := new(Beat)
	h.add(part{name, b.live, b.ready})
	return b
}

// Standby returns the pulse of a part that works only while no other process does: it does not
// count for readiness.
func (h *Health) Standby(name string) *Beat {
	b := new(Beat)
	h.add(part{name, b.live, fine})
	return b
}

// Check adds a check of readiness.
func (h *Health) Check(name string, ready func() error) {
	h.add(part{name, fine, func(time.Time) error { return ready() }})
}

// Component adds a component of the process: an error of ready is why it does not run.
func (h *Health) Component(name string, ready func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.components = append(h.components, part{name, fine, func(time.Time) error { return ready() }})
}

// Warn adds a warning: text returns a problem of a ready process, empty if there is none.
func (h *Health) Warn(name string, text func() string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.warnings = append(h.warnings, warning{name, text})
}

// Warnings returns the problems of a ready process, a line each.
func (h *Health) Warnings() (lines []string) {
	h.mu.Lock()
	warnings := slices.Clone(h.warnings)
	h.mu.Unlock()
	for _, w := range warnings {
		if text := w.text(); text != "" {
			lines = append(lines, w.name+": "+text)
		}
	}
	return lines
}

func fine(time.Time) error { return nil }

func (h *Health) add(p part) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.parts = append(h.parts, p)
}

// Live returns the stuck parts: Unavailable, nil if there are none.
func (h *Health) Live() error {
	return h.check(func(p part) error { return p.live(time.Now()) })
}

// Ready returns the parts that are not ready: Unavailable, nil if there are none.
func (h *Health) Ready() error {
	h.mu.Lock()
	none := len(h.parts) == 0
	h.mu.Unlock()
	err := h.check(func(p part) error { return p.ready(time.Now()) })
	if err == nil && none {
		return types.Errorf(types.Unavailable, "it is starting")
	}
	return err
}

func (h *Health) check(look func(part) error) error {
	h.mu.Lock()
	parts := slices.Concat(h.parts, h.components)
	h.mu.Unlock()
	var errs []error
	for _, p := range parts {
		if err := look(p); err != nil {
			errs = append(errs, types.Errorf(types.Unavailable, "%s: %w", p.name, err))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return types.Errorf(types.Unavailable, "%w", errors.Join(errs...))
}
