package esl

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/types"
)

// Loss is what becomes of the tasks of a job when one of them fails, or is lost.
type Loss string

// Fail ends all of them, and is what holds if nothing is said. Restart runs all of them
// again: they are at the same attempt. Alone runs the one again, and the others go on.
const (
	Fail    Loss = "fail"
	Restart Loss = "restart"
	Alone   Loss = "alone"
)

// Choices are what it may be.
func (Loss) Choices() []string { return []string{string(Fail), string(Restart), string(Alone)} }

// Check returns what is wrong with it, and with how many restarts it allows.
func (l Loss) Check(restarts int) (errs []error) {
	if l != "" && !slices.Contains(l.Choices(), string(l)) {
		errs = append(errs, Invalid("onLoss: %q is unknown: use %s", string(l), strings.Join(l.Choices(), ", ")))
	}
	if restarts < 0 {
		errs = append(errs, Invalid("restarts: %d is negative: give how often a task may fail, or leave it out for 3", restarts))
	}
	if restarts > 0 && l != Restart && l != Alone {
		errs = append(errs, Invalid("restarts: %d are allowed, and onLoss has all of them fail with the first: add onLoss: restart, or alone, or leave it out", restarts))
	}
	return errs
}

// LostBundles is what becomes of a place when its node is lost: only members that are alone go on
// with what is left of it.
func (l Loss) LostBundles() types.LostBundles {
	if l == Alone {
		return types.MoveBundles
	}
	return types.WaitForNode
}
