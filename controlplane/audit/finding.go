package audit

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/types"
)

// Guarantee is the name of one thing that must always hold.
type Guarantee string

// The guarantees; the number is that of the invariant it belongs to.
const (
	// AllocatedIsSum (1): what is allocated is the sum of what is held.
	AllocatedIsSum Guarantee = "AllocatedIsSum"
	// NoOversubscription (1): what is held is at most the capacity, at the
	// revision of each bind and grant.
	NoOversubscription Guarantee = "NoOversubscription"
	// NameIsOneKind (1): a name of a namespace is a pool of the cluster or on nodes, not
	// both, as who relies on what a node has does not ask whether there is a pool.
	NameIsOneKind Guarantee = "NameIsOneKind"
	// NoDoubleBind (2): a task has one attempt at a time, and a later one only
	// after the earlier one has ended.
	NoDoubleBind Guarantee = "NoDoubleBind"
	// NeverTwice (2): two processes of a task never ran at the same time, and none was run
	// twice, as the logs of what nodes ran prove: see CheckExecutions.
	NeverTwice Guarantee = "NeverTwice"
	// BoundImpliesEligible (2): what is bound or granted may be, there and then.
	BoundImpliesEligible Guarantee = "BoundImpliesEligible"
	// DeviceExclusive (3): shares of a device sum to at most 1, and a port has one
	// holder.
	DeviceExclusive Guarantee = "DeviceExclusive"
	// DevicesAsRequested (3): what is bound or granted has devices of the models, with the
	// memory and in the topology that are asked for, there and then.
	DevicesAsRequested Guarantee = "DevicesAsRequested"
	// GangAtomic (4): a reservation's bundles are all granted or none.
	GangAtomic Guarantee = "GangAtomic"
	// NothingLost (5): a task is pending, bound or finished with a reason.
	NothingLost Guarantee = "NothingLost"
	// StatusMonotonic (5): a status changes only as types.MayFollow says.
	StatusMonotonic Guarantee = "StatusMonotonic"
	// StoppedStaysStopped (5): a stop is never taken back, nor put off, nor is
	// an eviction put off.
	StoppedStaysStopped Guarantee = "StoppedStaysStopped"
	// ImagePinned (5): every attempt of a task runs the image of its first.
	ImagePinned Guarantee = "ImagePinned"
	// DeadlineKept (5): nothing is bound after its deadline, and what is bound
	// knows it.
	DeadlineKept Guarantee = "DeadlineKept"
	// RetriesKept (5): what failed is given the retries that its task has, and each not
	// before its time.
	RetriesKept Guarantee = "RetriesKept"
	// SpecKept (5): the spec of a task that has not ended is there, and is the one that the
	// task names.
	SpecKept Guarantee = "SpecKept"
	// JobWhole (5): a job that is new has all of its tasks.
	JobWhole Guarantee = "JobWhole"
	// Admitted (5): nothing is submitted while the cluster is closed to new tasks, or the
	// namespace has used up a budget.
	Admitted Guarantee = "Admitted"
	// Immutable (5): but for being stopped, what was submitted or bound stays as
	// it was.
	Immutable Guarantee = "Immutable"
	// OneWriter (6): a key is written by its writer alone.
	OneWriter Guarantee = "OneWriter"
	// NoOrphanReport: a report is of a binding that is there.
	NoOrphanReport Guarantee = "NoOrphanReport"
	// KeyWrites: the life of a task takes a bounded number of writes.
	KeyWrites Guarantee = "KeyWrites"
	// NothingLeft: nothing outlives for long what it ends with, be it a task, job, session,
	// reservation or the session of a node: see Checker.Left.
	NothingLeft Guarantee = "NothingLeft"
	// Progress: what a component has to do is done soon: an attempt that ended is released, a
	// stop reaches its node, a grant that nothing draws on goes: see Checker.Stuck.
	Progress Guarantee = "Progress"
	// Schema: every key is of a known form, and its value can be read.
	Schema Guarantee = "Schema"
)

// Guarantees returns all of them.
func Guarantees() []Guarantee {
	return []Guarantee{
		AllocatedIsSum, NoOversubscription, NameIsOneKind, NoDoubleBind, NeverTwice, BoundImpliesEligible, DeviceExclusive, DevicesAsRequested, GangAtomic,
		NothingLost, StatusMonotonic, StoppedStaysStopped, ImagePinned, DeadlineKept, RetriesKept, SpecKept, JobWhole, Admitted, Immutable, OneWriter, NoOrphanReport, KeyWrites, NothingLeft, Progress, Schema,
	}
}

// Finding is a guarantee that does not hold.
type Finding struct {
	Guarantee Guarantee `json:"guarantee"`
	// Object is what it is about, such as "task default/web-1" or "node n1".
	Object string `json:"object"`
	// Revision is the one it was found at.
	Revision int64 `json:"revision"`
	// Text says in words what is wrong.
	Text types.Text `json:"text"`
}

// String returns the finding as one line.
func (f Finding) String() string {
	return "revision " + strconv.FormatInt(f.Revision, 10) + ": " + string(f.Guarantee) + ": " + f.Object + ": " + f.Text.String()
}

// equal reports whether two findings say the same.
func (f Finding) equal(other Finding) bool { return f.String() == other.String() }

// Header returns the titles of a table of findings.
func (Finding) Header() []string { return []string{"REVISION", "GUARANTEE", "OBJECT", "TEXT"} }

// Row returns the finding as a row of the table.
func (f Finding) Row() []string {
	return []string{strconv.FormatInt(f.Revision, 10), string(f.Guarantee), f.Object, f.Text.String()}
}

// sorted sorts findings in place, drops duplicates and returns them.
func sorted(found []Finding) []Finding {
	slices.SortFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), strings.Compare(string(a.Guarantee), string(b.Guarantee)),
			strings.Compare(a.Object, b.Object), strings.Compare(a.Text.String(), b.Text.String()))
	})
	return slices.CompactFunc(found, Finding.equal)
}
