package esl

import (
	"errors"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/history"
	"github.com/escher-sched/escher/types"
)

// One is one unit of an ephemeral resource.
const One types.Quantity = 1000

// Copies returns n copies of a submission.
func Copies(n int, s controlplane.Submission) []controlplane.Submission {
	out := make([]controlplane.Submission, n)
	for i := range out {
		out[i] = s
	}
	return out
}

// Group is the tasks of a job before submission, with the additions of its policies. Additions of
// several policies combine: requests add up, and every combination of alternatives is one
// alternative.
type Group struct {
	// Namespace, ID and Name are those of the job.
	Namespace, ID, Name string
	// Session is the job's.
	Session string
	// Tasks may be changed by policies, by the methods below where one does it.
	Tasks []controlplane.Submission
	// Resources and Reservations are created in the same transaction as the tasks, and end with the
	// job.
	Resources    []controlplane.Resource
	Reservations []controlplane.Reservation
	// Shared holds the shared policies that the policies of the job refer to, by id.
	Shared map[string]Policy
	// Nodes holds the registered nodes by name, for a policy with NeedsNodes.
	Nodes map[string]*types.Node

	// Histories holds the past runs by the name of the history, for a policy with NeedsHistory.
	Histories map[string]*types.History

	// policies are those of the job, and stored their stored forms; the rest is of the current one.
	policies []Policy
	stored   []types.Policy

	// labels are those of the job.
	labels  []types.Label
	label   string
	kind    string
	opens   bool // the policy is an opener
	finally []func() error
	last    []func() error
	claims  []claim
	// either is the last policy that added alternatives.
	either string
	// ops is how many operations the store takes at once; 0 means any number.
	ops int
	// reads is the read set of the shared policies.
	reads controlplane.ReadSet
	// tooLong is the error of the first name of the current policy that is too long.
	tooLong error
}

// Own returns the name of an ephemeral resource, or reservation, of the current policy: the id of
// the job, the policy, and the suffix if there is one.
func (g *Group) Own(suffix string) string {
	name := OwnName(g.ID, g.label, suffix)
	if over := len(name) - types.MaxName; over > 0 && g.tooLong == nil {
		g.tooLong = Invalid("job.id: %q is too long: this policy makes %q of it, which is %d bytes more than a name may have; shorten it", g.ID, name, over)
	}
	return name
}

func OwnName(id, label, suffix string) string {
	name := id + "." + label
	if suffix != "" {
		name += "." + suffix
	}
	return name
}

// Ask adds a request to the i-th task.
func (g *Group) Ask(i int, name string, amount types.Quantity) {
	t := &g.Tasks[i].Task
	t.Requests = t.Requests.Plus(types.NewRequests(map[string]types.Quantity{name: amount}))
}

// Index returns the index of the i-th task: its place, unless the submission gives another.
func (g *Group) Index(i int) int {
	if t := &g.Tasks[i].Task; t.Count > 0 {
		return t.Index
	}
	return i
}

// AskAll adds a request to every task.
func (g *Group) AskAll(name string, amount types.Quantity) {
	for i := range g.Tasks {
		g.Ask(i, name, amount)
	}
}

// History returns the past runs of the i-th task; nil if there are none.
func (g *Group) History(i int) *types.History {
	return g.Histories[g.HistoryName(i)]
}

// HistoryName is State.HistoryName for the i-th task.
func (g *Group) HistoryName(i int) string { return historyName(&g.Tasks[i], g.Name, g.labels) }

// historyName returns the name of the history of a task to submit.
func historyName(s *controlplane.Submission, job string, labels []types.Label) string {
	t := types.Task{Job: "named", Labels: types.MergeLabels(labels, s.Task.Labels)}
	return history.Name(&t, job)
}

// Either adds alternatives to the i-th task: each combination of an existing and a new one becomes
// an alternative. The preference of the existing ones comes first.
func (g *Group) Either(i int, alternatives ...types.Alternative) {
	g.either = g.kind
	t := &g.Tasks[i].Task
	if len(t.Alternatives) == 0 {
		t.Alternatives = slices.Clone(alternatives)
		return
	}
	var all []types.Alternative
	for _, a := range t.Alternatives {
		for _, b := range alternatives {
			all = append(all, types.Alternative{Requests: a.Requests.Plus(b.Requests), After: max(a.After, b.After)})
		}
	}
	t.Alternatives = all
}

// OneOf is Either. Invalid: with those that the task has there are too many; the error names field.
func (g *Group) OneOf(field string, i int, ways ...types.Alternative) error {
	has := len(g.Tasks[i].Task.Alternatives)
	if n := has * len(ways); n > types.MaxAlternatives {
		return Invalid("%s: %d places with the %d alternatives that task %d has are %d: at most %d are allowed, drop some", field, len(ways), has, i, n, types.MaxAlternatives)
	}
	g.Either(i, ways...)
	return nil
}

// Provide makes the i-th task provide a resource on its node.
func (g *Group) Provide(i int, name string, amount types.Quantity, when types.When) {
	t := &g.Tasks[i].Task
	t.Provides = append(slices.Clone(t.Provides), types.Provide{Name: name, Amount: amount, When: when})
}

// Make creates an ephemeral resource with the tasks. It ends with the job.
func (g *Group) Make(name string, capacity types.Quantity, where controlplane.Where) {
	g.Resources = append(g.Resources, controlplane.Resource{Name: name, Capacity: capacity, Where: where, Options: OfJob(g.ID)})
}

// OfJob returns options for a resource that ends with a job; capacity 0 leaves it there, closed.
func OfJob(job string) controlplane.SetOptions {
	return controlplane.SetOptions{Declare: true, Lifetime: types.OfJob, Owner: job}
}

// Reserve creates a reservation for the job, under an id.
func (g *Group) Reserve(id string, r types.Reservation) {
	r.Job, r.Session = g.ID, g.Session
	g.Reservations = append(g.Reservations, controlplane.Reservation{ID: id, Reservation: r})
}

// Finally calls f after Apply of all policies of the job: for a policy that depends on the requests
// of the others.
func (g *Group) Finally(f func() error) { g.finally = append(g.finally, f) }

// Lastly calls f after all functions of Finally: for a policy that locks or counts all requests.
func (g *Group) Lastly(f func() error) { g.last = append(g.last, f) }

// Apply applies policies in order, and checks that they do not exclude one another.
func (g *Group) Apply(policies []Policy) error {
	if n := len(policies); n > types.MaxPolicies {
		return Invalid("policies: has %d: at most %d are allowed, drop some", n, types.MaxPolicies)
	}
	g.policies = resolved(policies, g.Shared)
	var err error
	if g.stored, err = StoredForms(g.policies); err != nil {
		return err
	}
	kinds := make([]string, len(g.policies))
	for i, p := range g.policies {
		kinds[i] = labelKind(p)
	}
	names := labels(kinds)
	var errs []error
	for i, p := range g.policies {
		g.kind, g.label = kinds[i], names[i]
		_, g.opens = p.(opener)
		finally, last := len(g.finally), len(g.last)
		if err := g.checked(p.Apply(g)); err != nil {
			errs = append(errs, g.named(i, err))
		}
		g.later(i, g.finally[finally:])
		g.later(i, g.last[last:])
	}
	errs = append(errs, g.conflicts()...)
	if err := Join(errs...); err != nil {
		return err
	}
	g.setPeers() // before Finally and Lastly count all requests
	for _, f := range slices.Concat(g.finally, g.last) {
		errs = append(errs, f())
	}
	return Join(errs...)
}

// later calls functions on behalf of the i-th policy, and puts its name in their errors.
func (g *Group) later(i int, functions []func() error) {
	kind, label := g.kind, g.label
	for j, f := range functions {
		functions[j] = func() error {
			g.kind, g.label = kind, label
			if err := g.checked(f()); err != nil {
				return g.named(i, err)
			}
			return nil
		}
	}
}

// checked joins an error of a policy with the error of a name that is too long.
func (g *Group) checked(err error) error {
	err = errors.Join(err, g.tooLong)
	g.tooLong = nil
	if err == nil {
		return nil
	}
	return types.Errorf(types.ClassOf(err), "%w", err)
}

// named adds the policy to an error.
func (g *Group) named(i int, err error) error {
	return types.Errorf(types.ClassOf(err), "policies[%d] (%s): %w", i, g.policies[i].Kind(), err)
}

// Invalid returns an error that names a parameter.
func Invalid(format string, args ...any) error {
	return types.Errorf(types.Invalid, format, args...)
}
