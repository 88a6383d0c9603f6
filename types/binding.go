package types

import (
	"slices"
	"strconv"
	"time"
)

// Binding is one attempt of a task on a node: all that its agent watches.
type Binding struct {
	Extra
	// Session is the session of the node it was bound in.
	Session int64
	// Holds are what it takes, physical, ephemeral and scoped.
	Holds []Holding
	// Alternative is the index of the alternative taken.
	Alternative int
	// Provides are what it adds to its node while it exists, or leaves behind.
	Provides []Provide
	// Spec is the digest of what to run.
	Spec string
	// Bound is when it was bound, in Unix nanoseconds.
	Bound int64
	// MaxRun is how long it may run; 0 is for ever.
	MaxRun time.Duration
	// OnDisconnect is the task's: no loss of the node releases a kept binding, and
	// there is no attempt after one to be stopped.
	OnDisconnect OnDisconnect
	// Stop is set to end it.
	Stop *Stop
	// Deadline is the task's.
	Deadline int64
	// Image is the image by digest, as an earlier attempt of the task, or a task
	// of its job, ran it; empty before any did.
	Image string
}

func (b *Binding) fields(w *wire) {
	integer(w, 2, &b.Session)
	list(w, 3, &b.Holds, (*Holding).fields)
	integer(w, 4, &b.Alternative)
	list(w, 5, &b.Provides, (*Provide).fields)
	text(w, 6, &b.Spec)
	integer(w, 7, &b.Bound)
	integer(w, 8, &b.MaxRun)
	text(w, 9, &b.OnDisconnect)
	optional(w, 10, &b.Stop, (*Stop).fields)
	integer(w, 11, &b.Deadline)
	text(w, 12, &b.Image)
}

// Amount returns how much of the base resource id the binding may use, whether
// it holds it itself or draws it from a reservation: its limit.
func (b *Binding) Amount(id ResourceID) Quantity {
	var sum Quantity
	for _, h := range b.Holds {
		if h.Resource.Unscoped() == id {
			sum = sum.Add(h.Amount)
		}
	}
	return sum
}

// Ports returns the numbers that the binding holds of Port, in order.
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

// Report is what an agent says of a binding.
type Report struct {
	Extra
	// Phase is ReportStarting, ReportRunning or ReportExited.
	Phase ReportPhase
	// Binding is the CreateRevision of the binding it is about.
	Binding int64
	// Started and Ended are in Unix nanoseconds.
	Started, Ended int64
	ExitCode       int
	// Reason says why it ended, where the exit code does not.
	Reason string
	// Cause is the reason for programs; empty if it is none of the causes.
	Cause Cause
	// Fenced tells that the agent ended it because it could not renew its
	// lease in time: the attempt is lost, not failed.
	Fenced bool
	// Stopped tells that the agent ended it because the binding said so: what
	// ended by itself before that counts by its exit code.
	Stopped bool
	// Image is the image by digest, once it is known.
	Image string
	// Restarts is how often the process was run again. A running attempt with
	// Ended set waits to be: its process ended then, with ExitCode.
	Restarts int
	// Delay is how long it waits, or waited, from Ended to the last restart.
	Delay time.Duration
	// Health is what the checks say of a process that runs; empty if it has none.
	// Reason then says why it is unhealthy.
	Health Health
}

func (r *Report) fields(w *wire) {
	text(w, 2, &r.Phase)
	integer(w, 3, &r.Binding)
	integer(w, 4, &r.Started)
	integer(w, 5, &r.Ended)
	integer(w, 6, &r.ExitCode)
	reason(w, 7, &r.Reason)
	w.boolean(8, &r.Fenced)
	w.boolean(9, &r.Stopped)
	text(w, 10, &r.Image)
	integer(w, 11, &r.Restarts)
	integer(w, 12, &r.Delay)
	text(w, 13, &r.Cause)
	text(w, 20, &r.Health)
}

// Cause is why an attempt ended, or a task failed, where programs go by it.
type Cause string

// The causes.
const (
	CauseMemory   Cause = "memory"   // the kernel killed it, as it had used up its memory
	CauseDeadline Cause = "deadline" // its deadline passed
	CauseEvicted  Cause = "evicted"  // it was evicted
	CauseLost     Cause = "lost"     // its node was lost
	CauseFenced   Cause = "fenced"   // its node could not tell that it was still alive
)

// ReportPhase is how far an agent is with a binding.
type ReportPhase string

// The phases of a report.
const (
	ReportStarting ReportPhase = "starting"
	ReportRunning  ReportPhase = "running"
	ReportExited   ReportPhase = "exited"
)

// Status is what users and Wait watch of a task. There is none before its first
// binding.
type Status struct {
	Extra
	Phase Phase
	// Node is where it is bound, or was last.
	Node string
	// Attempt counts its bindings, from 1.
	Attempt int
	// Bound, Started and Ended are of this attempt, in Unix nanoseconds. Of one that was
	// lost with its node Ended is when it was given up, by the clock of the scheduler.
	Bound, Started, Ended int64
	ExitCode              int
	// Reason says in words why it is in this phase, where that is not plain: of a
	// task that is bound, what its start suffers from; of one that runs, why it is
	// unhealthy, or how it ended that it is run again.
	Reason string
	// Cause is the reason for programs; empty if it is none of the causes, or if an older
	// version wrote it.
	Cause Cause
	// Image is the image by digest, once a node has resolved it; every later
	// attempt runs the same.
	Image string
	// Restarts is how often the process of this attempt was run again.
	Restarts int
	// Failures counts the attempts that failed, this one included.
	Failures int
	// Retry is, of a task that waits because its last attempt failed, when the next one
	// may be bound, in Unix nanoseconds, by the clock of the scheduler.
	Retry int64
	// Health is the one that was reported of it while it runs; empty if it has no
	// checks.
	Health Health
}

func (s *Status) fields(w *wire) {
	text(w, 2, &s.Phase)
	text(w, 3, &s.Node)
	integer(w, 4, &s.Attempt)
	integer(w, 5, &s.Bound)
	integer(w, 6, &s.Started)
	integer(w, 7, &s.Ended)
	integer(w, 8, &s.ExitCode)
	reason(w, 9, &s.Reason)
	text(w, 10, &s.Image)
	integer(w, 11, &s.Restarts)
	integer(w, 12, &s.Failures)
	integer(w, 13, &s.Retry)
	text(w, 14, &s.Cause)
	text(w, 20, &s.Health)
}

// Leader is who holds a role, or a scheduler that is there.
type Leader struct {
	Extra
	Holder string
	// Version is that of the server, where it says.
	Version string
}

func (l *Leader) fields(w *wire) {
	text(w, 2, &l.Holder)
	text(w, 3, &l.Version)
}

// Cluster says which cluster a store is of.
type Cluster struct {
	Extra
	// ID is new for each cluster: what runs on a machine is marked with it.
	ID string
}

func (c *Cluster) fields(w *wire) { text(w, 2, &c.ID) }

// Epoch names the history of a store, which a restore from a backup ends.
type Epoch struct {
	Extra
	// ID is new after each restore.
	ID string
	// Etcd identifies the cluster of etcd members that the history is of.
	Etcd string
}

func (e *Epoch) fields(w *wire) {
	text(w, 2, &e.ID)
	text(w, 3, &e.Etcd)
}

// Progress is how far etcd had come. A restore sets raft's index back, not the revision.
type Progress struct {
	Extra
	// Index is raft's index of an entry that was committed before this was written.
	Index int64
}

func (p *Progress) fields(w *wire) {
	integer(w, 2, &p.Index)
}

// Admission says, when its key exists, that no new task is admitted, and why.
type Admission struct {
	Extra
	Reason string
	// Budget is the budget of the namespace that is used up, such as keys; empty if it is
	// not about one, or if an older version wrote it.
	Budget string
	// Busy tells that it is only because too many tasks wait: who submits waits too,
	// until some have gone.
	Busy bool
}

func (a *Admission) fields(w *wire) {
	reason(w, 2, &a.Reason)
	w.boolean(3, &a.Busy)
	text(w, 4, &a.Budget)
}
