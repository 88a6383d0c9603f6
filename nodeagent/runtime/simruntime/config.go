// Package simruntime is a runtime without processes: what containers do is
// decided by a function, and faults are too. It keeps the contract of
// nodeagent.Runtime, and is as good for a test with real time, one in a bubble
// of testing/synctest, and a simulation that decides itself when things happen.
package simruntime

import (
	"context"
	"time"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
)

// Behaviour is what a container does.
type Behaviour struct {
	// Run is how long the process runs.
	Run time.Duration
	// Forever makes it run until it is signalled, or Finish is called.
	Forever bool
	// Code is what it exits with by itself.
	Code int
	// OOMKilled tells that the kernel ends it, for want of memory.
	OOMKilled bool
	// StopAfter is how long it takes to end after SIGTERM, and SIGINT.
	StopAfter time.Duration
	// StopCode is what it exits with then.
	StopCode int
	// Deaf makes it end at SIGKILL only.
	Deaf bool
}

// Script decides what a container does, or with what error it does not start.
// It must be a pure function.
type Script func(nodeagent.Container) (Behaviour, error)

// Op names a method of the runtime.
type Op string

// The methods that can fail.
const (
	Start  Op = "Start"
	List   Op = "List"
	Wait   Op = "Wait"
	Signal Op = "Signal"
	Remove Op = "Remove"
)

// Fault is what goes wrong with one call.
type Fault int

const (
	// NoFault: the call is done and answered.
	NoFault Fault = iota
	// Refused: nothing is done, the answer is Unavailable.
	Refused
	// Unanswered: it is done, but the answer is Unavailable.
	Unanswered
)

// Config says how to behave.
type Config struct {
	// Script decides what containers do; nil: they run until signalled.
	Script Script
	// Fault is asked at each call; nil: nothing goes wrong. id is empty for
	// List.
	Fault func(op Op, id string) Fault
	// Resolve returns an image by digest; nil: it is not known of any.
	Resolve func(image string) string
	// Exec runs another process in a container that runs; nil: every command is
	// found nowhere.
	Exec func(ctx context.Context, id string, p nodeagent.Process) (int, error)
	// Root is a directory that shows the files of a container that runs; nil:
	// none has files.
	Root func(id string) string
	// Usage is what a container that runs uses; nil: one process, and nothing else.
	Usage func(id string) cgroup.Stat
	// Now is the time; nil: time.Now. Durations of Behaviour always pass in
	// real time, or in that of a synctest bubble.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	if c.Script == nil {
		c.Script = func(nodeagent.Container) (Behaviour, error) { return Behaviour{Forever: true}, nil }
	}
	if c.Fault == nil {
		c.Fault = func(Op, string) Fault { return NoFault }
	}
	if c.Resolve == nil {
		c.Resolve = func(string) string { return "" }
	}
	if c.Usage == nil {
		c.Usage = func(string) cgroup.Stat {
			return cgroup.Stat{CPU: new(cgroup.CPU), Memory: new(cgroup.Memory), IO: new(cgroup.IO), Processes: new(int64(1))}
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}
