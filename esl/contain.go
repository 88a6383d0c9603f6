package esl

import "github.com/escher-sched/escher/controlplane/supervise"

// Contain calls code of a policy, which a user may have written. A panic of it becomes the
// error, and does no other harm.
func Contain(f func()) error {
	return supervise.Contain(func() error {
		f()
		return nil
	})
}
