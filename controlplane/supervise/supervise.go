// Package supervise keeps the components of a process running. It restarts a component that ended
// by an error or a panic, after a growing pause. The process continues meanwhile, and reports the
// state of each component.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

const (
	// firstPause is the pause before the first restart. Each further one is twice as long, up to
	// lastPause. Each varies by half, so that many machines do not act in step.
	firstPause = 250 * time.Millisecond
	lastPause  = 30 * time.Second
	// settled is the run time after which a run counts as good: the next pause is the first one.
	settled = time.Minute
)

// Schedule determines the pauses between tries.
type Schedule struct{ policy *backoff.ExponentialBackOff }

// NewSchedule returns a Schedule that begins with the shortest pause.
func NewSchedule() *Schedule {
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval, policy.MaxInterval, policy.Multiplier = firstPause, lastPause, 2
	return &Schedule{policy}
}

// Next returns the pause after a run of that length.
func (s *Schedule) Next(lasted time.Duration) time.Duration {
	if lasted >= settled {
		s.policy.Reset()
	}
	return s.policy.NextBackOff()
}

// Reset makes the next pause the shortest one.
func (s *Schedule) Reset() { s.policy.Reset() }

// Pause waits for the next pause after a run of that length, or returns why ctx is done.
func (s *Schedule) Pause(ctx context.Context, lasted time.Duration) error {
	return Pause(ctx, s.Next(lasted))
}

// Component is one part of a process that is kept running.
type Component struct {
	// Name is its name in logs, metrics and /readyz.
	Name string
	// Run does its work until ctx is done.
	Run func(ctx context.Context) error
	// Ends reports whether an error ends the component for good; nil means none does.
	Ends func(err error) bool
	// Log receives the reason of each end; nil disables logging.
	Log *zap.Logger

	mu    sync.Mutex
	state State
}

// State is the state of a component.
type State struct {
	// Running reports whether it runs. Otherwise it waits for its restart at Next, or has ended for
	// good.
	Running bool
	// Since is the time of its last start or end.
	Since time.Time
	// Next is the time of the next start while it does not run.
	Next time.Time
	// Restarts is the number of restarts since the start of the process.
	Restarts int
	// Err is the error of its last end; nil means it has not ended.
	Err error
}

// Keep runs the component until ctx is done, and restarts it when it ends. When ctx is done it
// returns the last error of Run. It returns earlier an error that ends the component for good: one
// that Ends reports, one marked by Fatal, or Invalid from a short first run. The last one is a
// configuration error that no restart corrects.
func (c *Component) Keep(ctx context.Context) error {
	schedule := NewSchedule()
	for {
		began := time.Now()
		c.change(func(s *State) { s.Running, s.Since, s.Next = true, began, time.Time{} })
		err := Contain(func() error { return c.Run(ctx) })
		if ctx.Err() != nil {
			c.change(func(s *State) { s.Running, s.Since, s.Err = false, time.Now(), nil })
			return err
		}
		if err == nil {
			err = types.Errorf(types.Internal, "%s ended by itself", c.Name)
		}
		now := time.Now()
		lasted := now.Sub(began)
		first := c.State().Restarts == 0 && lasted < settled
		if IsFatal(err) || first && types.Is(err, types.Invalid) || c.Ends != nil && c.Ends(err) {
			c.change(func(s *State) { s.Running, s.Since, s.Err = false, now, err })
			return err
		}
		wait := schedule.Next(lasted)
		c.change(func(s *State) { s.Running, s.Since, s.Next, s.Err = false, now, now.Add(wait), err })
		if c.Log != nil {
			c.Log.Error("component ended, restarting", zap.String("component", c.Name), zap.Duration("duration", wait), zap.Error(err))
		}
		if err := Pause(ctx, wait); err != nil {
			c.change(func(s *State) { s.Err = nil })
			return err
		}
		c.change(func(s *State) { s.Restarts++ })
	}
}

// State returns the state of the component.
func (c *Component) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

func (c *Component) change(edit func(*State)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	edit(&c.state)
}

// Ready returns nil while the component runs. Unavailable: it ended and waits for its restart.
func (c *Component) Ready() error {
	s := c.State()
	if s.Running || s.Err == nil {
		return nil
	}
	return types.Errorf(types.Unavailable, "it ended at %s, after %s, and starts again at %s: %w",
		clock(s.Since), words.Count(s.Restarts, "restart"), clock(s.Next), firstLine(s.Err))
}

// Warning describes the last end of a component that runs again; empty if it never ended, or has
// been running for long.
func (c *Component) Warning() string {
	s := c.State()
	if !s.Running || s.Restarts == 0 || time.Since(s.Since) > warnFor {
		return ""
	}
	return fmt.Sprintf("it runs since %s, after %s; it ended with: %v", clock(s.Since), words.Count(s.Restarts, "restart"), firstLine(s.Err))
}

// warnFor is how long Warning reports the last end after a restart.
const warnFor = 10 * time.Minute

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// firstLine returns an error without the stack of a panic.
func firstLine(err error) error {
	text := types.CutReason(err.Error())
	for i := range len(text) {
		if text[i] == '\n' {
			return errors.New(text[:i])
		}
	}
	return errors.New(text)
}

// Pause waits for d, or returns ctx.Err() once ctx is done.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
