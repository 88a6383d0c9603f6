package types

import (
	"cmp"
	"time"
)

// Task is the intent of an application: what is to run once, and what it needs.
// It is small and, but for Stop, Evict and Later, immutable.
type Task struct {
	Extra
	// Name is a label; the id is in the key and never used again.
	Name string
	// Job is the id of the job the task belongs to: it is invisible to
	// schedulers until that is there. Empty for a task of its own.
	Job string
	// Requests must all be met, on one node.
	Requests Requests
	// Alternatives, if any, are vectors of which one is added to Requests.
	Alternatives []Alternative
	// Spec is the digest of what to run.
	Spec string
	// Provides are resources that the task gives to its node.
	Provides []Provide
	// Priority orders pending tasks, the highest first; then age does.
	Priority int
	// Submitted is when it was submitted, in Unix nanoseconds.
	Submitted int64
	// Scheduler is the only one that may bind and release it; empty is any.
	Scheduler string
	// OnDisconnect says what becomes of it when its node is cut off.
	OnDisconnect OnDisconnect
	// MaxRun is how long it may run; 0 is for ever. A task with it can
	// backfill through what a reservation accumulates.
	MaxRun time.Duration
	// Deadline is when it fails if it has not ended, waiting or running, in Unix
	// nanoseconds; 0 is never.
	Deadline int64
	// Session owns the task: it is stopped when the session ends.
	Session string
	// Stop is set to end the task for good.
	Stop *Stop
	// Evict is the attempt to end; the task then waits for its next one.
	Evict int
	// EvictGrace is how long that attempt has between its stop signal and the kill; 0 is
	// the grace of its spec.
	EvictGrace time.Duration
	// Later is what else was said of it since it was submitted; nil is nothing.
	Later *Later
	// Accumulate lets it, when it has waited, hold piecemeal on one node what becomes
	// free there, one task or reservation at a time in the cluster: so that the
	// large do not starve.
	Accumulate bool
	// Devices say which devices the requests are to be made up of, whichever
	// alternative is taken.
	Devices []DeviceRequest
	// Retries is how many more attempts it is given after attempts that failed, each
	// on any node, and after a wait: see RetryDelay. Attempts that were evicted, or lost
	// with their node, do not count.
	Retries int
}

func (t *Task) fields(w *wire) {
	text(w, 2, &t.Name)
	text(w, 3, &t.Job)
	list(w, 4, (*[]Request)(&t.Requests), (*Request).fields)
	list(w, 5, &t.Alternatives, (*Alternative).fields)
	text(w, 6, &t.Spec)
	list(w, 7, &t.Provides, (*Provide).fields)
	integer(w, 8, &t.Priority)
	integer(w, 9, &t.Submitted)
	text(w, 10, &t.Scheduler)
	text(w, 11, &t.OnDisconnect)
	integer(w, 12, &t.MaxRun)
	text(w, 13, &t.Session)
	optional(w, 14, &t.Stop, (*Stop).fields)
	integer(w, 15, &t.Evict)
	integer(w, 16, &t.Deadline)
	w.boolean(17, &t.Accumulate)
	list(w, 18, &t.Devices, (*DeviceRequest).fields)
	integer(w, 20, &t.EvictGrace)
	integer(w, 21, &t.Retries)
	optional(w, 22, &t.Later, (*Later).fields)
}

// Later is what is said of a task after it was submitted, beside that it is to end. It is
// said of few, and there are very many tasks.
type Later struct {
	// EvictReason is who or what ends the attempt that is evicted, in words.
	EvictReason string
	// Raised is by how much it comes earlier while it waits: see Order.
	Raised int
}

func (l *Later) fields(w *wire) {
	reason(w, 2, &l.EvictReason)
	integer(w, 3, &l.Raised)
}

// Order is what orders it among what waits, the highest first: its priority, and what it
// was raised by. Of what has its place, and for all else, the priority alone counts.
func (t *Task) Order() int {
	if t.Later == nil {
		return t.Priority
	}
	return t.Priority + t.Later.Raised
}

// EvictReason is who or what ends the attempt that is evicted; empty if nobody says.
func (t *Task) EvictReason() string {
	if t.Later == nil {
		return ""
	}
	return t.Later.EvictReason
}

// Tell changes what is said of a task, without changing what others share with it.
func Tell(t *Task, change func(*Later)) {
	var l Later
	if t.Later != nil {
		l = *t.Later
	}
	if change(&l); l == (Later{}) {
		t.Later = nil
		return
	}
	t.Later = &l
}

// Stop asks for the end of a task.
type Stop struct {
	// Reason is who or what asked, in words.
	Reason string
	// Grace is how long the task has between its stop signal and the kill; 0 is that
	// of its spec.
	Grace time.Duration
	// Evicted tells, in a binding, that the task is to run again elsewhere.
	Evicted bool
}

func (s *Stop) fields(w *wire) {
	reason(w, 2, &s.Reason)
	integer(w, 3, &s.Grace)
	w.boolean(4, &s.Evicted)
}

// OnDisconnect is what becomes of an attempt whose node is cut off from the cluster.
type OnDisconnect string

// Fence and StopLost end it on the node before the node's lease can have run out. Then
// Fence gives the task another attempt elsewhere, and StopLost has it fail for good. Keep
// leaves it to that node, however long it is away.
const (
	Fence    OnDisconnect = "" // in text: fence
	StopLost OnDisconnect = "stop"
	Keep     OnDisconnect = "keep"
)

// fenceText is what people write for Fence.
const fenceText = "fence"

// ParseOnDisconnect reads what people write: fence, which is what holds if they write
// nothing, stop or keep. Invalid: the error names what is possible.
func ParseOnDisconnect(s string) (OnDisconnect, error) {
	switch d := OnDisconnect(s); d {
	case Fence, StopLost, Keep:
		return d, nil
	case fenceText:
		return Fence, nil
	}
	return Fence, errOnDisconnect(s)
}

func errOnDisconnect(s string) error {
	return Errorf(Invalid, "on disconnect: %q is unknown: use fence, stop or keep", s)
}

// String returns what ParseOnDisconnect reads.
func (d OnDisconnect) String() string { return cmp.Or(string(d), fenceText) }

// Provide is an ephemeral resource that a task creates on the node it runs on.
type Provide struct {
	Name   string
	Amount Quantity
	When   When
}

func (p *Provide) fields(w *wire) {
	text(w, 2, &p.Name)
	integer(w, 3, &p.Amount)
	text(w, 4, &p.When)
}

// When is the moment from which a task provides a resource.
type When string

// The moments. What is provided when bound or running ends with the binding; what is
// provided when healthy, as long as it runs and no check speaks against it; what is
// provided on success stays until the application removes it or, under a name that begins
// with the id of the task's job and a dot, until all tasks of the job have ended.
const (
	WhenBound     When = "bound"
	WhenRunning   When = "running"
	WhenHealthy   When = "healthy"
	WhenSucceeded When = "succeeded"
)

// Provided is what an ended task left behind on a node.
type Provided struct {
	Extra
	Amount Quantity
	// Task is the id of the task that left it.
	Task string
	// NodeSession is the session of the node it is on: void in any other.
	NodeSession int64
	// Job owns it, if its name begins with the id of the task's job and a dot: it is
	// deleted when all tasks of the job have ended, or the job is gone.
	Job string
}

func (p *Provided) fields(w *wire) {
	integer(w, 2, &p.Amount)
	text(w, 3, &p.Task)
	integer(w, 4, &p.NodeSession)
	text(w, 5, &p.Job)
}

// Spec is what to run: immutable, shared by the tasks of a job, named by the
// digest of its encoding.
type Spec struct {
	Extra
	// Image is a reference such as docker.io/library/busybox:1.36.
	Image string
	// Command replaces the image's entry point and arguments, if not empty.
	Command []string
	// Env is added to the image's environment, as NAME=value.
	Env []string
	// Dir is the working directory; empty is the image's.
	Dir string
	// User is uid[:gid] or a name of the image; empty is the image's.
	User string
	// Grace is the time between the stop signal and the kill; 0 is 10 s.
	Grace time.Duration
	// Restart says when a process that ended by itself is run again; nil is never.
	Restart *Restart
	// StopSignal asks the process to end, such as SIGINT; empty is the image's,
	// and SIGTERM where that names none.
	StopSignal string
	// Mounts are directories and files made visible inside.
	Mounts []Mount
	// Ports are given to the task: each is also one of its requests.
	Ports []TaskPort
	// Pids is how many processes and threads it may have; 0 is what its node gives.
	Pids int
	// CPULimit is what it may use of cpu beside what the task requests.
	CPULimit CPULimit
	// CapAdd and CapDrop change the capabilities that its root user has, which are
	// DefaultCapabilities, by their names without CAP_; AllCapabilities drops each. What
	// is added, another user has, too. See CapabilitiesOf.
	CapAdd, CapDrop []string
	// ReadOnlyRoot keeps it from writing to the files of its image.
	ReadOnlyRoot bool
	// Privileged gives it what root of the node has: capabilities, devices, all system
	// calls, and the files of the kernel.
	Privileged bool
	// Checks say whether its process does its work.
	Checks []Check
	// Warn is sent to the process some time before it is asked to end; nil is nothing.
	Warn *Warn
	// Init makes a small init the first process, which passes on signals and the exit
	// code, and takes care of processes that nobody waits for.
	Init bool
	// Socket is what its container may do through the task socket.
	Socket Socket
}

func (s *Spec) fields(w *wire) {
	text(w, 2, &s.Image)
	texts(w, 3, &s.Command)
	texts(w, 4, &s.Env)
	text(w, 5, &s.Dir)
	text(w, 6, &s.User)
	integer(w, 7, &s.Grace)
	optional(w, 8, &s.Restart, (*Restart).fields)
	text(w, 9, &s.StopSignal)
	list(w, 10, &s.Mounts, (*Mount).fields)
	list(w, 11, &s.Ports, (*TaskPort).fields)
	integer(w, 12, &s.Pids)
	text(w, 13, &s.CPULimit)
	texts(w, 14, &s.CapAdd)
	texts(w, 15, &s.CapDrop)
	w.boolean(16, &s.ReadOnlyRoot)
	w.boolean(17, &s.Privileged)
	list(w, 20, &s.Checks, (*Check).fields)
	optional(w, 21, &s.Warn, (*Warn).fields)
	w.boolean(22, &s.Init)
	text(w, 23, &s.Socket)
}

// Restart is when a process that ended by itself is run again, on the same node and
// in the same attempt.
type Restart struct {
	// When is RestartOnFailure or RestartAlways.
	When RestartWhen
	// Limit is how often at most; 0 is without limit.
	Limit int
	// Delay is the wait before the first restart. It is doubled for each that follows,
	// up to MaxDelay. After a run of LongRun the wait is Delay again. 0 means the constants
	// RestartDelay and MaxRestartDelay: see Next.
	Delay, MaxDelay time.Duration
}

func (r *Restart) fields(w *wire) {
	text(w, 2, &r.When)
	integer(w, 3, &r.Limit)
	integer(w, 4, &r.Delay)
	integer(w, 5, &r.MaxDelay)
}

// RestartWhen says which ends a process is restarted after.
type RestartWhen string

// The policies. What is stopped, has run too long or can never run is not restarted.
const (
	RestartOnFailure RestartWhen = "on-failure"
	RestartAlways    RestartWhen = "always"
)

// Mount makes a file or directory visible in a container.
type Mount struct {
	// Source is an absolute path of the node, which its configuration must allow;
	// NodePlaceholder in it stands for the name of the node. Empty is a scratch directory: empty at first, the task's alone, kept over
	// restarts, gone with the attempt.
	Source string
	// Target is the absolute path in the container.
	Target string
	// ReadOnly keeps the task from writing there.
	ReadOnly bool
}

func (m *Mount) fields(w *wire) {
	text(w, 2, &m.Source)
	text(w, 3, &m.Target)
	w.boolean(4, &m.ReadOnly)
}

// NodePlaceholder stands, in the source of a mount, for the name of the node: so nodes
// that share a machine, or a file system, have directories of their own.
const NodePlaceholder = "{node}"

// TaskPort is a port of the node that a task listens at.
type TaskPort struct {
	// Name is how the task finds the number: HTTP is in ESCHER_PORT_HTTP.
	Name string
	// Number is the port, requested as port/<number>; 0 is any of the node's
	// range, requested as port.
	Number int
}

func (p *TaskPort) fields(w *wire) {
	text(w, 2, &p.Name)
	integer(w, 3, &p.Number)
}

// Job is written after its tasks, in one piece: it makes them visible.
type Job struct {
	Extra
	Name string
	// Tasks is how many it has.
	Tasks int
	// Submitted is when it was submitted, in Unix nanoseconds.
	Submitted int64
	// Wish is a digest of what was wished for, if policies have changed its tasks since.
	Wish string
}

func (j *Job) fields(w *wire) {
	text(w, 2, &j.Name)
	integer(w, 3, &j.Tasks)
	integer(w, 4, &j.Submitted)
	text(w, 5, &j.Wish)
}

// Quota makes requests of Resource draw on Pool, a cluster-wide resource.
type Quota struct {
	Resource ResourceID
	Pool     ResourceID
}

func (q *Quota) fields(w *wire) {
	text(w, 2, &q.Resource)
	text(w, 3, &q.Pool)
}

// Session is what an application keeps on its lease: the owner of what must not
// outlive it.
type Session struct {
	Extra
	// Name says whose it is, for people.
	Name string
}

func (s *Session) fields(w *wire) { text(w, 2, &s.Name) }
