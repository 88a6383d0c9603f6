package room

import "github.com/escher-sched/escher/esl"

// Stay keeps the tasks of a job from being evicted for others of the namespace.
type Stay struct{}

// Kind returns stay.
func (Stay) Kind() string { return "stay" }

// Describe says what the policy does, and its flags.
func (Stay) Describe() esl.Description {
	return esl.Description{Does: "the tasks are not evicted for tasks of higher priority", OneByOne: true, Flags: []esl.Flag{{
		Name: "stay", Usage: "never evict it for tasks of higher priority",
	}}}
}

// Apply changes nothing: Preempt finds the policy in the store.
func (Stay) Apply(*esl.Group) error { return nil }
