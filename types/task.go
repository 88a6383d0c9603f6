package types

import (
	"cmp"
	"time"

	"github.com/escher-sched/escher/types/wire"
)

// A Task is the intent of an application: what to run once, and what it needs. It is small and,
// except for Stop, Evict, Later and, while it waits, Requests, immutable.
type Task struct {
	Extra
	// Name is a label. The id is in the key and never reused.
	Name string
	// Job is the id of the job. Schedulers ignore the task until the job exists. Empty for a single
	// task without a job.
	Job string
	// Requests are all required, on one node.
	Requests Requests
	// Alternatives, if any, are vectors; one of them is added to Requests.
	Alternatives []Alternative
	// Spec is the digest of the spec to run.
	Spec string
	// Provides are resources that the task adds to its node.
	Provides []Provide
	// Priority orders waiting tasks, highest first; age orders equal ones.
	Priority int
	// Submitted is the time of the submission, in Unix nanoseconds.
	Submitted int64
	// Scheduler is the only scheduler that may bind and release it; empty means any.
	Scheduler string
	// OnDisconnect says what happens when its node is cut off.
	OnDisconnect OnDisconnect
	// MaxRun is the longest run time; 0 means no limit. A task with a limit can backfill capacity
	// that a reservation accumulates.
	MaxRun time.Duration
	// Deadline is when the task fails if it has not ended, waiting or running, in Unix nanoseconds;
	// 0 means never.
	Deadline int64
	// Session is the owning session, whose end stops the task.
	Session string
	// Stop, unless nil, ends the task for good.
	Stop *Stop
	// Evict is the number of the attempt to end; the task then waits for its next one.
	Evict int
	// EvictGrace is that attempt's time between stop signal and kill; 0 means the grace of its spec.
	EvictGrace time.Duration
	// Later has rare changes since the submission; nil means none.
	Later *Later
	// Accumulate asks to hold capacity piecemeal on one node as it becomes free, after a long wait. So small
	// tasks do not starve a large one. A library decides which collects, and where: see Collect.
	Accumulate bool
	// Devices restrict the devices of the requests, with any alternative.
	Devices []DeviceRequest
	// Retries is the number of further attempts after failed ones, each on any node and after a
	// wait: see package backoff. Attempts that were evicted, or lost with their node, do not count.
	Retries int
	// Index is its place among the tasks of its job, from 0, and Count their number. Count is 0
	// without a job, or if an older version launched it; then Index says nothing.
	Index, Count int
	// Labels are sorted by name. They include those of its job.
	Labels []Label
	// User is the submitter, as a server has authenticated it; empty without one.
	User string
}

func (t *Task) fields(w *wire.Pass) {
	wire.Text(w, 2, &t.Name)
	wire.Text(w, 3, &t.Job)
	wire.List(w, 4, (*[]Request)(&t.Requests), (*Request).fields)
	wire.List(w, 5, &t.Alternatives, (*Alternative).fields)
	wire.Text(w, 6, &t.Spec)
	wire.List(w, 7, &t.Provides, (*Provide).fields)
	wire.Integer(w, 8, &t.Priority)
	wire.Integer(w, 9, &t.Submitted)
	wire.Text(w, 10, &t.Scheduler)
	wire.Text(w, 11, &t.OnDisconnect)
	wire.Integer(w, 12, &t.MaxRun)
	wire.Text(w, 13, &t.Session)
	wire.Optional(w, 14, &t.Stop, (*Stop).fields)
	wire.Integer(w, 15, &t.Evict)
	wire.Integer(w, 16, &t.Deadline)
	w.Boolean(17, &t.Accumulate)
	wire.List(w, 18, &t.Devices, (*DeviceRequest).fields)
	wire.Integer(w, 20, &t.EvictGrace)
	wire.Integer(w, 21, &t.Retries)
	wire.Optional(w, 22, &t.Later, (*Later).fields)
	wire.Integer(w, 23, &t.Index)
	wire.Integer(w, 24, &t.Count)
	wire.List(w, 26, &t.Labels, (*Label).fields)
	wire.Text(w, 27, &t.User)
}

// Later has the changes of a task since its submission, apart from its end. Few of the very many
// tasks have any, so they are kept apart.
type Later struct {
	// EvictReason is the cause of the eviction in words.
	EvictReason string
	// Raised is added to its priority while it waits: see Order.
	Raised int
	// Collect directs the collection of its capacity while it waits; nil means it collects nothing.
	Collect *Collect
}

func (l *Later) fields(w *wire.Pass) {
	reason(w, 2, &l.EvictReason)
	wire.Integer(w, 3, &l.Raised)
	wire.Optional(w, 4, &l.Collect, (*Collect).fields)
}

// Order is its rank in the queue, highest first: its priority plus its raise. The raise counts in
// the queue only; all else uses the priority.
func (t *Task) Order() int {
	if t.Later == nil {
		return t.Priority
	}
	return t.Priority + t.Later.Raised
}

// Collect returns what directs the collection of its capacity; nil means it collects nothing.
func (t *Task) Collect() *Collect {
	if t.Later == nil {
		return nil
	}
	return t.Later.Collect
}

// EvictReason returns the cause of the eviction; empty if none was given.
func (t *Task) EvictReason() string {
	if t.Later == nil {
		return ""
	}
	return t.Later.EvictReason
}

// UpdateLater changes the Later of a task, without changing a Later that other tasks share.
func UpdateLater(t *Task, change func(*Later)) {
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

// Stop is the order to end a task.
type Stop struct {
	// Reason is the cause in words.
	Reason string
	// Grace is the time between stop signal and kill; 0 means that of its spec.
	Grace time.Duration
	// Evicted reports, in a binding, whether the task will run again.
	Evicted bool
}

func (s *Stop) fields(w *wire.Pass) {
	reason(w, 2, &s.Reason)
	wire.Integer(w, 3, &s.Grace)
	w.Boolean(4, &s.Evicted)
}

// OnDisconnect says what happens to an attempt whose node is cut off from the cluster.
type OnDisconnect string

// Fence and StopLost end the attempt on the node before the node's lease can expire. Then Fence
// gives the task another attempt, and StopLost makes it fail for good. Keep leaves the attempt to
// its node, however long the node is away.
const (
	Fence    OnDisconnect = "" // as text: fence
	StopLost OnDisconnect = "stop"
	Keep     OnDisconnect = "keep"
)

// fenceText is the text form of Fence.
const fenceText = "fence"

// ParseOnDisconnect parses fence, which is the default, stop or keep. Invalid: the error names the values.
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

// String returns the form that ParseOnDisconnect parses.
func (d OnDisconnect) String() string { return cmp.Or(string(d), fenceText) }

// Provide is an ephemeral resource that a task creates on its node.
type Provide struct {
	Name   string
	Amount Quantity
	When   When
}

func (p *Provide) fields(w *wire.Pass) {
	wire.Text(w, 2, &p.Name)
	wire.Integer(w, 3, &p.Amount)
	wire.Text(w, 4, &p.When)
}

// When is the time from which a task provides a resource.
type When string

// The times. A resource provided when bound or running ends with the binding. One provided when healthy lasts
// while the task runs and no check fails. One provided on success stays until the application removes it. If
// its name begins with the id of the task's job and a dot, it ends when all tasks of the job have ended.
const (
	WhenBound     When = "bound"
	WhenRunning   When = "running"
	WhenHealthy   When = "healthy"
	WhenSucceeded When = "succeeded"
)

// Provided is a resource that an ended task left on a node.
type Provided struct {
	Extra
	Amount Quantity
	// Task is the id of that task.
	Task string
	// NodeSession is the session of its node: the resource is void in any other.
	NodeSession int64
	// Job is the owning job, if its name begins with the id of the task's job and a dot. The
	// resource is deleted when all tasks of the job have ended, or the job is gone.
	Job string
}

func (p *Provided) fields(w *wire.Pass) {
	wire.Integer(w, 2, &p.Amount)
	wire.Text(w, 3, &p.Task)
	wire.Integer(w, 4, &p.NodeSession)
	wire.Text(w, 5, &p.Job)
}

// A Spec is the program to run: immutable, shared by the tasks of a job, and named by the digest of
// its encoding.
type Spec struct {
	Extra
	// Image is a reference such as docker.io/library/busybox:1.36.
	Image string
	// Entrypoint, unless empty, replaces the image's entry point and its arguments.
	Entrypoint []string
	// Command, unless empty, replaces the image's arguments. It follows the entry point.
	Command []string
	// Env is added to the image's environment, as NAME=value.
	Env []string
	// Dir is the working directory; empty means the image's.
	Dir string
	// User is uid[:gid] or a name of the image; empty means the image's.
	User string
	// Grace is the time between stop signal and kill; 0 means 10 s.
	Grace time.Duration
	// Restart says when to restart a process that ended by itself; nil means never.
	Restart *Restart
	// StopSignal asks the process to end, such as SIGINT. Empty means the image's, or SIGTERM if
	// the image names none.
	StopSignal string
	// Mounts are directories and files mounted into the container.
	Mounts []Mount
	// Ports are the task's ports: each is also one of its requests.
	Ports []TaskPort
	// Pids is the limit of processes and threads; 0 means the node's default.
	Pids int
	// CPULimit is the limit of cpu beyond the task's request.
	CPULimit CPULimit
	// CapAdd and CapDrop change the capabilities of its root user, which are DefaultCapabilities.
	// Names are without CAP_; AllCapabilities drops every one. Other users get only what CapAdd
	// lists. See CapabilitiesOf.
	CapAdd, CapDrop []string
	// ReadOnlyRoot makes the files of its image read-only.
	ReadOnlyRoot bool
	// Privileged grants the rights of the node's root user: capabilities, devices, all system
	// calls, and the files of the kernel.
	Privileged bool
	// Checks report whether its process does its work.
	Checks []Check
	// Warn is a signal some time before the process must end; nil means none.
	Warn *Warn
	// Init makes a small init the first process, which passes on signals and the exit code, and
	// reaps orphaned processes.
	Init bool
	// Socket is the set of rights of its container through the task socket.
	Socket Socket
	// Peers says what its process learns of the other tasks of its job.
	Peers Peers
	// MemoryLimit is the most memory that it may use, in bytes; 0 means what it requests, and no limit
	// if it requests none.
	MemoryLimit Quantity
	// Shm is the size of its shared memory, in bytes; 0 means MemoryShare.
	Shm Quantity
	// Tmpfs are file systems in memory.
	Tmpfs []Tmpfs
	// Ulimits are limits of each of its processes, by name; those of the runtime apply to the rest.
	Ulimits []Ulimit
	// NoHealthcheck ignores the health check of the image, which is used if there are no Checks.
	NoHealthcheck bool
	// Workdir is a directory sent by the user; nil means none.
	Workdir *Workdir
	// Stdin gives its process an input, which one client passes. The input cannot be repeated, so
	// such a task has one attempt, without restarts.
	Stdin bool
	// TTY gives its process a terminal, which makes one stream of its output.
	TTY bool
	// Secrets are those whose values its process gets.
	Secrets []SecretUse
}

// SetCommand sets the entry point and the command as written by a user. A nil entry point means the
// image's; an empty one that is not nil means none, so that the command runs by itself.
func (s *Spec) SetCommand(entrypoint, command []string) {
	s.Entrypoint, s.Command = entrypoint, command
	if entrypoint != nil && len(entrypoint) == 0 {
		s.Entrypoint, s.Command = command, nil
		if len(command) == 0 {
			s.Entrypoint = []string{""} // Validate refuses it: nothing would run
		}
	}
}

func (s *Spec) fields(w *wire.Pass) {
	wire.Text(w, 2, &s.Image)
	wire.Texts(w, 3, &s.Entrypoint)
	wire.Texts(w, 4, &s.Env)
	wire.Text(w, 5, &s.Dir)
	wire.Text(w, 6, &s.User)
	wire.Integer(w, 7, &s.Grace)
	wire.Optional(w, 8, &s.Restart, (*Restart).fields)
	wire.Text(w, 9, &s.StopSignal)
	wire.List(w, 10, &s.Mounts, (*Mount).fields)
	wire.List(w, 11, &s.Ports, (*TaskPort).fields)
	wire.Integer(w, 12, &s.Pids)
	wire.Text(w, 13, &s.CPULimit)
	wire.Texts(w, 14, &s.CapAdd)
	wire.Texts(w, 15, &s.CapDrop)
	w.Boolean(16, &s.ReadOnlyRoot)
	w.Boolean(17, &s.Privileged)
	wire.List(w, 20, &s.Checks, (*Check).fields)
	wire.Optional(w, 21, &s.Warn, (*Warn).fields)
	w.Boolean(22, &s.Init)
	wire.Text(w, 23, &s.Socket)
	wire.Text(w, 24, &s.Peers)
	wire.Texts(w, 32, &s.Command)
	wire.Integer(w, 33, &s.Shm)
	wire.List(w, 34, &s.Tmpfs, (*Tmpfs).fields)
	wire.List(w, 35, &s.Ulimits, (*Ulimit).fields)
	w.Boolean(36, &s.NoHealthcheck)
	wire.Optional(w, 46, &s.Workdir, (*Workdir).fields)
	w.Boolean(47, &s.Stdin)
	w.Boolean(48, &s.TTY)
	wire.Integer(w, 49, &s.MemoryLimit)
	wire.List(w, 50, &s.Secrets, (*SecretUse).fields)
}

// Restart says when to restart a process that ended by itself, on the same node and in the same attempt.
type Restart struct {
	// When is RestartOnFailure or RestartAlways.
	When RestartWhen
	// Limit is the largest number of restarts; 0 means no limit.
	Limit int
	// Delay is the wait before the first restart, doubled for each later one up to MaxDelay. After
	// a run of LongRun the wait is Delay again. 0 means RestartDelay and MaxRestartDelay: see Next.
	Delay, MaxDelay time.Duration
}

func (r *Restart) fields(w *wire.Pass) {
	wire.Text(w, 2, &r.When)
	wire.Integer(w, 3, &r.Limit)
	wire.Integer(w, 4, &r.Delay)
	wire.Integer(w, 5, &r.MaxDelay)
}

// RestartWhen selects the ends after which a process restarts.
type RestartWhen string

// The policies. A process that was stopped, ran too long or can never run does not restart.
const (
	RestartOnFailure RestartWhen = "on-failure"
	RestartAlways    RestartWhen = "always"
)

// Mount makes a file or directory visible in a container.
type Mount struct {
	// Source is an absolute path of the node, which its configuration must allow. NodePlaceholder
	// in it stands for the name of the node. Empty means a scratch directory: empty at first,
	// private to the task, kept over restarts, and gone with the attempt.
	Source string
	// Target is the absolute path in the container.
	Target string
	// ReadOnly forbids writes.
	ReadOnly bool
}

func (m *Mount) fields(w *wire.Pass) {
	wire.Text(w, 2, &m.Source)
	wire.Text(w, 3, &m.Target)
	w.Boolean(4, &m.ReadOnly)
}

// WorkdirRepository is the repository of the images of directories that users send to nodes. An
// image is WorkdirRepository@sha256:….
const WorkdirRepository = "escher.local/workdir"

// DefaultWorkdir is where a sent directory appears in containers.
const DefaultWorkdir = "/workdir"

// UnsentWorkdir stands for the image of a directory that is not sent yet.
const UnsentWorkdir = WorkdirRepository + "@sha256:0000000000000000000000000000000000000000000000000000000000000000"

// Workdir is a directory of the user's machine, with its code, in the container. The files are
// those at the submission. Each attempt has a copy of its own, which it may change.
type Workdir struct {
	// Image is the image of its files: WorkdirRepository@sha256:….
	Image string
	// Target is the absolute path in the container. It is the working directory unless the spec has one.
	Target string
}

func (d *Workdir) fields(w *wire.Pass) {
	wire.Text(w, 2, &d.Image)
	wire.Text(w, 3, &d.Target)
}

// NodePlaceholder stands for the name of the node in the source of a mount. It gives nodes that
// share a machine or file system separate directories.
const NodePlaceholder = "{node}"

// TaskPort is a port of the node that a task listens on.
type TaskPort struct {
	// Name determines the variable with the number: HTTP is in ESCHER_PORT_HTTP.
	Name string
	// Number is the port, requested as port/<number>. 0 means any port of the node's range,
	// requested as port.
	Number int
}

func (p *TaskPort) fields(w *wire.Pass) {
	wire.Text(w, 2, &p.Name)
	wire.Integer(w, 3, &p.Number)
}

// A Job is written after the tasks of its launch, and makes them visible. An update that adds tasks
// writes it again.
type Job struct {
	Extra
	Name string
	// Tasks is the number of its tasks.
	Tasks int
	// Submitted is the time of the submission, in Unix nanoseconds.
	Submitted int64
	// RequestDigest is a digest of the job as requested, if policies have changed its tasks since.
	RequestDigest string
	// Members holds the ids of its tasks by index, if one of them has Peers; only that of the first
	// if they are more than MaxPeers.
	Members []string
	// Labels are sorted by name. Each of its tasks has them too, unless it has its own value.
	Labels []Label
	// Updating reports whether an update of its tasks has begun and not finished.
	Updating bool
	// User is that of its first tasks: see Task.
	User string
}

func (j *Job) fields(w *wire.Pass) {
	wire.Text(w, 2, &j.Name)
	wire.Integer(w, 3, &j.Tasks)
	wire.Integer(w, 4, &j.Submitted)
	wire.Text(w, 5, &j.RequestDigest)
	wire.Texts(w, 6, &j.Members)
	wire.List(w, 8, &j.Labels, (*Label).fields)
	w.Boolean(12, &j.Updating)
	wire.Text(w, 13, &j.User)
}

// Session is the value that an application keeps on its lease. It owns objects that must not
// outlive the application.
type Session struct {
	Extra
	// Name tells people the owner.
	Name string
}

func (s *Session) fields(w *wire.Pass) { wire.Text(w, 2, &s.Name) }
