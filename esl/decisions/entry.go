package decisions

import (
	"slices"
	"strconv"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

// Outcome says what became of a decision.
type Outcome string

// The outcomes.
const (
	// Nothing is a plan without changes.
	Nothing Outcome = "nothing"
	// Done is a plan that was carried out, Partly one whose first part was.
	Done   Outcome = "done"
	Partly Outcome = "partly"
	// Repeated is a plan equal to the last one, which was carried out and had no effect.
	Repeated Outcome = "repeated"
	// Refused is a plan that the store refused because an object had changed: the policy decides
	// again.
	Refused Outcome = "refused"
	// Failed is an error of the policy, such as a panic, or of its plan: the policy decides again
	// later.
	Failed Outcome = "failed"
	// Unreadable is a policy that its program cannot read, and does not run.
	Unreadable Outcome = "unreadable"
	// Ended is the end of a policy: it was withdrawn, its job has ended, or it was replaced.
	Ended Outcome = "ended"
)

// Entry is a decision of a policy, or several equal decisions in a row.
type Entry struct {
	// Seq numbers the entries of all policies in a log. Changed is the number of the last change of
	// this entry, from the same sequence.
	Seq     int64 `json:"seq"`
	Changed int64 `json:"changed"`
	// Policy is the policy as in the names of its resources, such as gang or spread-2.
	Policy string `json:"policy"`
	// First and Last are the times of the first and the last of these decisions, Times their number.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Times int       `json:"times"`
	// Revision is that of the view, Woken what called the policy, and Looked what it read, all of
	// the last decision.
	Revision int64       `json:"revision,omitempty"`
	Woken    string      `json:"woken,omitempty"`
	Looked   *esl.Looked `json:"looked,omitempty"`

	Outcome Outcome `json:"outcome"`
	// Changes are those of the plan, a line for each sort.
	Changes []string `json:"changes,omitempty"`
	// Reason explains the plan, or why it has no changes.
	Reason string `json:"reason,omitempty"`
	// Error is why the plan was refused or failed.
	Error string `json:"error,omitempty"`
	// Committed is the revision that has the changes.
	Committed int64 `json:"committed,omitempty"`
	// Again is when the policy is called again even without a change; nil means never.
	Again *time.Time `json:"again,omitempty"`
}

// The longest texts of an entry, in bytes.
const (
	maxText  = 300
	maxNamed = 3
)

// like reports whether two entries are equal decisions, which share one entry.
func (e *Entry) like(other *Entry) bool {
	return e.Policy == other.Policy && e.Outcome == other.Outcome && e.Reason == other.Reason && e.Error == other.Error && slices.Equal(e.Changes, other.Changes)
}

// cut bounds the texts of an entry.
func (e *Entry) cut() {
	for _, text := range []*string{&e.Policy, &e.Woken, &e.Reason, &e.Error} {
		*text = types.Cut(*text, maxText)
	}
	for i := range e.Changes {
		e.Changes[i] = types.Cut(e.Changes[i], maxText)
	}
}

// Changes describes the changes of a plan, a line for each sort.
func Changes(p *esl.Plan) (lines []string) {
	add := func(does string, n int, noun string, name func(i int) string) {
		if n == 0 {
			return
		}
		names := make([]string, min(n, maxNamed), n)
		for i := range names {
			names[i] = name(i)
		}
		if n > maxNamed {
			names = names[:n] // List counts those without a name
		}
		lines = append(lines, does+" "+words.Count(n, noun)+": "+words.List(names, maxNamed))
	}
	add("set", len(p.Set), "resource", func(i int) string { return setting(&p.Set[i]) })
	add("reserve", len(p.Reserve), "reservation", func(i int) string { return p.Reserve[i].ID })
	add("give up", len(p.Unreserve), "reservation", func(i int) string { return p.Unreserve[i] })
	add("stop", len(p.Stop), "task", func(i int) string { return p.Stop[i].Task })
	add("evict", len(p.Evict), "task", func(i int) string { return p.Evict[i].Task })
	add("raise", len(p.Raise), "item", func(i int) string { return p.Raise[i].ID + " by " + strconv.Itoa(p.Raise[i].By) })
	add("change the requests of", len(p.Request), "task", func(i int) string { return p.Request[i].Task })
	return lines
}

// setting describes the change of a resource.
func setting(x *controlplane.Resource) string {
	text := x.Name + " = " + x.Capacity.Format(types.ResourceID(x.Name))
	if x.Capacity == 0 && !x.Options.Declare {
		text = x.Name + " removed"
	}
	switch {
	case x.Where.Cluster:
		return text
	case len(x.Where.Nodes) > 0:
		return text + " on " + words.List(x.Where.Nodes, maxNamed)
	}
	return text + " on nodes"
}
