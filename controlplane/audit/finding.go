package audit

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/types"
)

// Guarantee is the name of a property that always holds.
type Guarantee string

// The guarantees, each with the number of its invariant.
const (
	// AllocatedIsSum (1): the allocated amount is the sum of the held amounts.
	AllocatedIsSum Guarantee = "AllocatedIsSum"
	// NoOversubscription (1): the held amount is at most the capacity, at the revision of each bind
	// and grant.
	NoOversubscription Guarantee = "NoOversubscription"
	// NameIsOneKind (1): a name of a namespace is a pool of the cluster or on nodes, never both. A
	// bind on a node relies on that and does not compare the pool.
	NameIsOneKind Guarantee = "NameIsOneKind"
	// NoDoubleBind (2): a task has one attempt at a time, and a later one only after the earlier
	// one has ended.
	NoDoubleBind Guarantee = "NoDoubleBind"
	// NeverTwice (2): two processes of a task never ran at the same time, and none ran twice. The
	// nodes' logs of executions prove it: see CheckExecutions.
	NeverTwice Guarantee = "NeverTwice"
	// BoundImpliesEligible (2): every bind and grant was allowed on its node at its time.
	BoundImpliesEligible Guarantee = "BoundImpliesEligible"
	// DeviceExclusive (3): the shares of a device sum to at most 1, and a port has one holder.
	DeviceExclusive Guarantee = "DeviceExclusive"
	// DevicesAsRequested (3): bindings and grants have devices with the requested models, memory
	// and topology, at the time of the bind or grant.
	DevicesAsRequested Guarantee = "DevicesAsRequested"
	// GangAtomic (4): a reservation's bundles are all granted or none.
	GangAtomic Guarantee = "GangAtomic"
	// NothingLost (5): a task is pending, bound or finished with a reason.
	NothingLost Guarantee = "NothingLost"
	// StatusMonotonic (5): a status changes only as mayFollow allows.
	StatusMonotonic Guarantee = "StatusMonotonic"
	// StoppedStaysStopped (5): a stop is never withdrawn or delayed, and an eviction is never
	// delayed.
	StoppedStaysStopped Guarantee = "StoppedStaysStopped"
	// ImagePinned (5): every attempt of a task runs the image of its first one.
	ImagePinned Guarantee = "ImagePinned"
	// DeadlineKept (5): no task is bound after its deadline, and every binding has it.
	DeadlineKept Guarantee = "DeadlineKept"
	// RetriesKept (5): a failed task gets its retries, none of them early.
	RetriesKept Guarantee = "RetriesKept"
	// SpecKept (5): the spec of a task that has not ended exists and has the task's digest.
	SpecKept Guarantee = "SpecKept"
	// JobWhole (5): a new job has all of its tasks.
	JobWhole Guarantee = "JobWhole"
	// Admitted (5): nothing is submitted while the cluster is closed to new tasks or the namespace
	// is over a budget.
	Admitted Guarantee = "Admitted"
	// Immutable (5): submitted and bound objects never change, apart from being stopped and their labels.
	Immutable Guarantee = "Immutable"
	// OneWriter (6): only its writer writes a key.
	OneWriter Guarantee = "OneWriter"
	// NoOrphanReport: every report belongs to a present binding.
	NoOrphanReport Guarantee = "NoOrphanReport"
	// KeyWrites: the life of a task takes a bounded number of writes.
	KeyWrites Guarantee = "KeyWrites"
	// NothingLeft: no object outlives its owner, or the session of its node, for long: see
	// Checker.Left.
	NothingLeft Guarantee = "NothingLeft"
	// Progress: components do their work soon. An ended attempt is released, a stop reaches its
	// node, and an unused grant goes: see Checker.Stuck.
	Progress Guarantee = "Progress"
	// Schema: every key has a known form and a readable value.
	Schema Guarantee = "Schema"
)

// Guarantees returns every guarantee.
func Guarantees() []Guarantee {
	return []Guarantee{
		AllocatedIsSum, NoOversubscription, NameIsOneKind, NoDoubleBind, NeverTwice, BoundImpliesEligible, DeviceExclusive, DevicesAsRequested, GangAtomic,
		NothingLost, StatusMonotonic, StoppedStaysStopped, ImagePinned, DeadlineKept, RetriesKept, SpecKept, JobWhole, Admitted, Immutable, OneWriter, NoOrphanReport, KeyWrites, NothingLeft, Progress, Schema,
	}
}

// A Finding is a violated guarantee.
type Finding struct {
	Guarantee Guarantee `json:"guarantee"`
	// Object is the subject, such as "task default/web-1" or "node n1".
	Object string `json:"object"`
	// Revision is the revision of the finding.
	Revision int64 `json:"revision"`
	// Text describes the problem.
	Text types.Text `json:"text"`
}

// String returns the finding as one line.
func (f Finding) String() string {
	return "revision " + strconv.FormatInt(f.Revision, 10) + ": " + string(f.Guarantee) + ": " + f.Object + ": " + f.Text.String()
}

// equal reports whether two findings are the same.
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
