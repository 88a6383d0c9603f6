package types

import (
	"slices"
	"strconv"
	"time"

	"github.com/escher-sched/escher/types/wire"
)

// A Binding is one attempt of a task on a node: agents watch nothing else.
type Binding struct {
	Extra
	// Session is the session of the node at the bind.
	Session int64
	// Holds are the amounts it takes: physical, ephemeral and scoped.
	Holds []Holding
	// Alternative is the index of the alternative taken.
	Alternative int
	// Provides are resources that it adds to its node while it exists, or leaves behind.
	Provides []Provide
	// Spec is the digest of the spec to run.
	Spec string
	// Bound is the time of the bind, in Unix nanoseconds.
	Bound int64
	// MaxRun is the longest run time; 0 means no limit.
	MaxRun time.Duration
	// OnDisconnect is the task's. A kept binding survives every loss of its node, and a StopLost
	// attempt has no successor.
	OnDisconnect OnDisconnect
	// Stop, unless nil, ends the attempt.
	Stop *Stop
	// Deadline is the task's deadline.
	Deadline int64
	// Image is the image by digest, as an earlier attempt of the task or a task of its job ran it;
	// empty before the first.
	Image string
}

func (b *Binding) fields(w *wire.Pass) {
	wire.Integer(w, 2, &b.Session)
	wire.List(w, 3, &b.Holds, (*Holding).fields)
	wire.Integer(w, 4, &b.Alternative)
	wire.List(w, 5, &b.Provides, (*Provide).fields)
	wire.Text(w, 6, &b.Spec)
	wire.Integer(w, 7, &b.Bound)
	wire.Integer(w, 8, &b.MaxRun)
	wire.Text(w, 9, &b.OnDisconnect)
	wire.Optional(w, 10, &b.Stop, (*Stop).fields)
	wire.Integer(w, 11, &b.Deadline)
	wire.Text(w, 12, &b.Image)
}

// Amount returns the binding's limit of the base resource id, whether it holds the amount itself or
// draws it from a reservation.
func (b *Binding) Amount(id ResourceID) Quantity {
	var sum Quantity
	for _, h := range b.Holds {
		if h.Resource.Unscoped() == id {
			sum = sum.Add(h.Amount)
		}
	}
	return sum
}

// Ports returns the port numbers that the binding holds, in order.
func (b *Binding) Ports() []int {
	var numbers []int
	for _, h := range b.Holds {
		if h.Resource.Unscoped() != Port {
			continue
		}
		for _, d := range h.Devices {
			if n, err := strconv.Atoi(d.ID); err == nil {
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	return numbers
}

// A Report is an agent's report about a binding.
type Report struct {
	Extra
	// Phase is ReportStarting, ReportRunning or ReportExited.
	Phase ReportPhase
	// Binding is the CreateRevision of the reported binding.
	Binding int64
	// Started and Ended are in Unix nanoseconds.
	Started, Ended int64
	ExitCode       int
	// Reason says why it ended, if the exit code does not.
	Reason string
	// Cause is the reason for programs; empty if it is none of the causes.
	Cause Cause
	// Fenced reports whether the agent ended it because it could not renew its lease in time. The
	// attempt is then lost, not failed.
	Fenced bool
	// Stopped reports whether the agent ended it because of Binding.Stop. A process that ended by
	// itself before that counts by its exit code.
	Stopped bool
	// Image is the image by digest, once it is known.
	Image string
	// Restarts is the number of restarts of the process. A running attempt with Ended set waits for
	// a restart: its process ended then, with ExitCode.
	Restarts int
	// Delay is the wait between Ended and the last restart.
	Delay time.Duration
	// Used is what the process used, once it has ended; zero if that is not known.
	Used Used
	// Health is the result of the checks of a running process; empty if it has none. Reason says
	// why it is unhealthy.
	Health Health
}

func (r *Report) fields(w *wire.Pass) {
	wire.Text(w, 2, &r.Phase)
	wire.Integer(w, 3, &r.Binding)
	wire.Integer(w, 4, &r.Started)
	wire.Integer(w, 5, &r.Ended)
	wire.Integer(w, 6, &r.ExitCode)
	reason(w, 7, &r.Reason)
	w.Boolean(8, &r.Fenced)
	w.Boolean(9, &r.Stopped)
	wire.Text(w, 10, &r.Image)
	wire.Integer(w, 11, &r.Restarts)
	wire.Integer(w, 12, &r.Delay)
	wire.Text(w, 13, &r.Cause)
	wire.Text(w, 20, &r.Health)
	wire.Integer(w, 21, &r.Used.CPU)
	wire.Integer(w, 22, &r.Used.Memory)
}

// Used is what a process used from its start to its end. 0 means that it is not known.
type Used struct {
	// CPU is the mean, in thousandths of a processor. Memory is the peak of the working set, in
	// bytes: without files that can be dropped at once.
	CPU, Memory Quantity
}

func (u *Used) validate(p *problems) {
	within(p, "used cpu", u.CPU, 0, MaxQuantity)
	within(p, "used memory", u.Memory, 0, MaxQuantity)
}

// Cause is why an attempt ended or a task failed, for programs that decide by it.
type Cause string

// The causes.
const (
	CauseMemory   Cause = "memory"   // the kernel killed it because it had used up its memory
	CauseDeadline Cause = "deadline" // its deadline passed
	CauseEvicted  Cause = "evicted"  // it was evicted
	CauseLost     Cause = "lost"     // its node was lost
	CauseFenced   Cause = "fenced"   // its node could not show in time that it was alive
)

// ReportPhase is the phase of a binding on its node.
type ReportPhase string

// The phases of a report.
const (
	ReportStarting ReportPhase = "starting"
	ReportRunning  ReportPhase = "running"
	ReportExited   ReportPhase = "exited"
)

// Status is the state of a task for users and Wait. A task has none before its first binding.
type Status struct {
	Extra
	Phase Phase
	// Node is the node it is or was last bound to.
	Node string
	// Attempt counts its bindings, from 1.
	Attempt int
	// Bound, Started and Ended belong to this attempt, in Unix nanoseconds. For an attempt lost
	// with its node, Ended is when the scheduler gave it up, by its clock.
	Bound, Started, Ended int64
	ExitCode              int
	// Reason explains the phase in words, if that is not obvious: what delays the start of a bound
	// task, or why a running one is unhealthy or was restarted.
	Reason string
	// Cause is the reason for programs; empty if it is none of the causes, or if an older version wrote it.
	Cause Cause
	// Image is the image by digest, once a node has resolved it. Every later attempt runs the same one.
	Image string
	// Restarts is the number of restarts of the process in this attempt.
	Restarts int
	// Failures counts the failed attempts, this one included.
	Failures int
	// Retry is the earliest time of the next attempt of a task that waits after a failure, in Unix
	// nanoseconds, by the scheduler's clock.
	Retry int64
	// Health is the last reported health while the task runs; empty if it has no checks.
	Health Health
	// Used is what this attempt used, once it has ended; zero if that is not known.
	Used Used
}

func (s *Status) fields(w *wire.Pass) {
	wire.Text(w, 2, &s.Phase)
	wire.Text(w, 3, &s.Node)
	wire.Integer(w, 4, &s.Attempt)
	wire.Integer(w, 5, &s.Bound)
	wire.Integer(w, 6, &s.Started)
	wire.Integer(w, 7, &s.Ended)
	wire.Integer(w, 8, &s.ExitCode)
	reason(w, 9, &s.Reason)
	wire.Text(w, 10, &s.Image)
	wire.Integer(w, 11, &s.Restarts)
	wire.Integer(w, 12, &s.Failures)
	wire.Integer(w, 13, &s.Retry)
	wire.Text(w, 14, &s.Cause)
	wire.Text(w, 20, &s.Health)
	wire.Integer(w, 21, &s.Used.CPU)
	wire.Integer(w, 22, &s.Used.Memory)
}

// Leader is the holder of a role, or a live scheduler.
type Leader struct {
	Extra
	Holder string
	// Version is the version of the server, if known.
	Version string
	// Address is where the holder answers questions, and Token lets its bearer ask; "" if it does not.
	Address, Token string
}

func (l *Leader) fields(w *wire.Pass) {
	wire.Text(w, 2, &l.Holder)
	wire.Text(w, 3, &l.Version)
	wire.Text(w, 4, &l.Address)
	wire.Text(w, 5, &l.Token)
}

// Cluster identifies the cluster of a store.
type Cluster struct {
	Extra
	// ID is new for each cluster: agents mark what they run on a machine with it.
	ID string
}

func (c *Cluster) fields(w *wire.Pass) { wire.Text(w, 2, &c.ID) }

// Epoch names the history of a store. A restore from a backup ends a history.
type Epoch struct {
	Extra
	// ID is new after each restore.
	ID string
	// Etcd is the id of the etcd cluster of the history.
	Etcd string
}

func (e *Epoch) fields(w *wire.Pass) {
	wire.Text(w, 2, &e.ID)
	wire.Text(w, 3, &e.Etcd)
}

// Progress records how far etcd had advanced. A restore resets raft's index, but not the revision.
type Progress struct {
	Extra
	// Index is raft's index of an entry committed before this write.
	Index int64
}

func (p *Progress) fields(w *wire.Pass) {
	wire.Integer(w, 2, &p.Index)
}

// Admission exists while the cluster or a namespace admits no new task, and says why.
type Admission struct {
	Extra
	Reason string
	// Budget is the used-up budget of the namespace, such as keys; empty if there is none, or if
	// an older version wrote it.
	Budget string
	// Busy reports whether the only cause is that too many tasks wait. Submitters then wait until
	// some have started.
	Busy bool
}

func (a *Admission) fields(w *wire.Pass) {
	reason(w, 2, &a.Reason)
	w.Boolean(3, &a.Busy)
	wire.Text(w, 4, &a.Budget)
}
