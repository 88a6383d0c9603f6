package esl

import (
	"runtime/debug"

	"github.com/escher-sched/escher/types"
)

// contained calls what may be somebody else's. That it panics is the error then, Internal,
// and harms nobody else.
func contained(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = types.Errorf(types.Internal, "it panicked: %v\n%s", r, debug.Stack())
		}
	}()
	f()
	return nil
}
