package esl

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/types"
)

// Loss says what happens to the tasks of a job when one of them fails or is lost.
type Loss string

// Fail ends all tasks; it is the default. Restart runs all tasks again, so that they are at the
// same attempt. Alone runs the one task again, and the others go on.
const (
	Fail    Loss = "fail"
	Restart Loss = "restart"
	Alone   Loss = "alone"
)

// Choices returns the valid values.
func (Loss) Choices() []string { return []string{string(Fail), string(Restart), string(Alone)} }

// Check returns the errors of the value and of the number of restarts.
func (l Loss) Check(restarts int) (errs []error) {
	errs = append(errs, InvalidIf(l != "" && !slices.Contains(l.Choices(), string(l)), "onLoss: %q is unknown: use %s", string(l), strings.Join(l.Choices(), ", ")))
	errs = append(errs, InvalidIf(restarts < 0, "restarts: %d is negative: give how often a task may fail, or leave it out for 3", restarts))
	errs = append(errs, InvalidIf(restarts > 0 && l != Restart && l != Alone, "restarts: %d are allowed, and onLoss has all of them fail with the first: add onLoss: restart, or alone, or leave it out", restarts))
	return errs
}

// Peers returns what members know of each other: all know the same if they run again together.
func (l Loss) Peers() types.Peers {
	if l == Alone {
		return types.AnyPeers
	}
	return types.WholePeers
}

// LostBundles returns what happens to bundles on a lost node: only with Alone do members go on with
// the remaining bundles.
func (l Loss) LostBundles() types.LostBundles {
	if l == Alone {
		return types.MoveBundles
	}
	return types.WaitForNode
}
