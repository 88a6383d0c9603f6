// Package simruntime is a runtime without processes. Functions decide the behavior of containers
// and the faults. It keeps the contract of nodeagent.Runtime. It works in tests with real time, in
// a bubble of testing/synctest, and in a simulation that decides itself when things happen.
package simruntime

import (
	"context"
	"time"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
	"github.com/escher-sched/escher/types"
)

// Behaviour is the behavior of a container.
type Behaviour struct {
	// Run is how long the process runs.
	Run time.Duration
	// Forever makes the process run until a signal or Finish.
	Forever bool
	// Code is its exit code if it ends by itself.
	Code int
	// OOMKilled reports whether the kernel kills it for lack of memory.
	OOMKilled bool
	// MilliCPU is what it uses all the time, in thousandths of a processor, and Memory its peak in
	// bytes.
	MilliCPU, Memory int64
	// StopAfter is the time from SIGTERM, SIGINT or its stop signal to its end.
	StopAfter time.Duration
	// StopCode is its exit code then.
	StopCode int
	// Deaf makes it end only at SIGKILL.
	Deaf bool
	// Copy makes it write its input to its output, and end by itself when its input ends. Other
	// processes do not read their input.
	Copy bool
	// Output is what it writes at its start.
	Output []tasklog.Piece
	// Ended, unless nil, is called when it ends, with how long it has run. It must not call the runtime.
	Ended func(ran time.Duration)
}

// Script decides what a container does, or the error with which it does not start. It must be a
// pure function.
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
	// Refused: the call does nothing, and returns Unavailable.
	Refused
	// Unanswered: the call is done, and returns Unavailable.
	Unanswered
)

// Config configures the behavior of the runtime.
type Config struct {
	// Script decides what containers do; nil means they run until a signal.
	Script Script
	// Fault is called for each call; nil means no faults. id is "" for List.
	Fault func(op Op, id string) Fault
	// Resolve returns an image by digest; nil means always "".
	Resolve func(image string) string
	// Check returns the health check of an image; nil means that no image has one.
	Check func(image string) *types.Check
	// Exec runs another process in a running container; nil means that no command exists.
	Exec func(ctx context.Context, id string, p nodeagent.Process) (int, error)
	// Root returns a directory that shows the files of a running container; nil means that none has
	// files.
	Root func(id string) string
	// Usage returns the usage of a running container; nil means one process, and nothing else.
	Usage func(id string) cgroup.Stat
	// AttachWait is how long an input waits for a client; 0 means nodeagent.AttachWait.
	AttachWait time.Duration
	// Now returns the time; nil means time.Now. Durations of Behaviour always pass in real time, or
	// in that of a synctest bubble.
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
	if c.Check == nil {
		c.Check = func(string) *types.Check { return nil }
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
