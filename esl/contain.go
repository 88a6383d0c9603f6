package esl

import "github.com/escher-sched/escher/controlplane/supervise"

// contained calls what may be somebody else's. A panic of it is the error, and harms
// nobody else.
func contained(f func()) error {
	return supervise.Contain(func() error {
		f()
		return nil
	})
}
