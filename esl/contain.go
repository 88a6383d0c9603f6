package esl

import "github.com/escher-sched/escher/controlplane/supervise"

// Contain calls policy code, which may be a user's. It turns a panic of that code into an error.
func Contain(f func()) error {
	return supervise.Contain(func() error {
		f()
		return nil
	})
}
