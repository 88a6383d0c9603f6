package manifest

import (
	"cmp"
	"time"

	"github.com/escher-sched/escher/types"
)

// Update says how apply replaces the tasks of a job, one after the other.
type Update struct {
	AtOnce  int            `json:"atOnce,omitempty" desc:"how many tasks are replaced at once; 1 if it is left out" zero:"would replace none: give 1 or more, or leave it out for 1" min:"0" max:"100000"`
	Order   UpdateOrder    `json:"order,omitempty" desc:"stop-first, if it is left out, ends a task before its successor starts; start-first ends it once its successor is healthy"`
	Healthy types.Duration `json:"healthy,omitempty" desc:"how long new tasks must be healthy, or run without checks, before the next are replaced; 10s if it is left out" zero:"is not a duration: give one above zero, or leave it out for 10s"`
	Timeout types.Duration `json:"timeout,omitempty" desc:"how long the update waits for tasks to be healthy, or to end, before it gives up; 10m if it is left out" zero:"is not a duration: give one above zero, or leave it out for 10m"`
}

// UpdateOrder is the order of the steps that replace a task.
type UpdateOrder string

// The orders.
const (
	StopFirst  UpdateOrder = "stop-first"
	StartFirst UpdateOrder = "start-first"
)

// Choices lists the values.
func (UpdateOrder) Choices() []string { return []string{string(StopFirst), string(StartFirst)} }

// The defaults of an Update.
const (
	defaultUpdateHealthy = types.Duration(10 * time.Second)
	defaultUpdateTimeout = types.Duration(10 * time.Minute)
)

// WithDefaults returns the update with its defaults filled in; nil has all of them.
func (u *Update) WithDefaults() Update {
	var out Update
	if u != nil {
		out = *u
	}
	out.AtOnce = max(out.AtOnce, 1)
	out.Order = cmp.Or(out.Order, StopFirst)
	out.Healthy = cmp.Or(out.Healthy, defaultUpdateHealthy)
	out.Timeout = cmp.Or(out.Timeout, defaultUpdateTimeout)
	return out
}

// validate checks an update; nil is valid.
func (u *Update) validate() error {
	switch {
	case u == nil:
		return nil
	case u.AtOnce < 0 || u.AtOnce > MaxTasks:
		return types.Errorf(types.Invalid, "update.atOnce: %d is out of range: give 1 to %d", u.AtOnce, MaxTasks)
	case u.Order != "" && u.Order != StopFirst && u.Order != StartFirst:
		return types.Errorf(types.Invalid, "update.order: %q is unknown: use stop-first or start-first", string(u.Order))
	case u.Healthy < 0 || time.Duration(u.Healthy) > types.MaxGrace:
		return types.Errorf(types.Invalid, "update.healthy: %s is out of range: give at most %s", time.Duration(u.Healthy), types.MaxGrace)
	case u.Timeout < 0 || time.Duration(u.Timeout) > types.MaxGrace:
		return types.Errorf(types.Invalid, "update.timeout: %s is out of range: give at most %s", time.Duration(u.Timeout), types.MaxGrace)
	}
	return nil
}
