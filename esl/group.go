package esl

import (
	"errors"
	"fmt"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// One is one of an ephemeral resource.
const One types.Quantity = 1000

// Job is tasks to be submitted together.
type Job struct {
	// ID is unique in its namespace, for ever; empty: made from Name.
	ID string
	// Name is a label.
	Name string
	// Tasks are at least one.
	Tasks []controlplane.Submission
	// Session owns the tasks, and has the policies kept by whoever has it instead of a
	// server; empty: they go on without the application.
	Session string
	// NoneSince is as of controlplane.Job.
	NoneSince int64
	// Wished has apply know it again by what was wished for, though policies change the
	// tasks: see controlplane.Wish.
	Wished bool
	// If is what the submission is conditional on.
	If controlplane.ReadSet
	// Shared are shared policies that are declared in the same transaction, by id: those
	// that are not among them are read.
	Shared map[string]Policy
	// Beside are the names of jobs, and tasks, that are submitted in the same transaction.
	Beside []string
}

// Copies returns n submissions of the same.
func Copies(n int, s controlplane.Submission) []controlplane.Submission {
	out := make([]controlplane.Submission, n)
	for i := range out {
		out[i] = s
	}
	return out
}

// Set is an ephemeral resource as it is to be.
type Set struct {
	Name     string
	Capacity types.Quantity
	Where    controlplane.Where
	Options  controlplane.SetOptions
}

// Reservation is bundles to be locked, under an id.
type Reservation struct {
	ID string
	types.Reservation
}

// Group is the tasks of a job on their way to be submitted, with what policies add to
// them. What is added by several of them goes together: requests add up, and of
// alternatives every combination is one.
type Group struct {
	// Namespace, ID and Name are the job's.
	Namespace, ID, Name string
	// Session is the job's.
	Session string
	// Tasks may be changed by policies, by the methods below where they do.
	Tasks []controlplane.Submission
	// Resources and Reservations are made in the same transaction as the tasks, and
	// end with the job.
	Resources    []Set
	Reservations []Reservation
	// Shared are the shared policies that those of the job refer to, by id.
	Shared map[string]Policy
	// Nodes are those that are registered, by name, for a policy that is NeedsNodes.
	Nodes map[string]*types.Node

	label   string
	kind    string
	opens   bool // it is an opener
	finally []func() error
	last    []func() error
	claims  []claim
	// either is the last policy that added alternatives.
	either string
	// ops is how many operations the store takes at once; 0: any number.
	ops int
	// reads are the shared policies, as they were read.
	reads controlplane.ReadSet
	// tooLong is about the first name that is, of the policy that is being applied.
	tooLong error
}

// Own returns the name of an ephemeral resource, or reservation, of the policy that is
// being applied: the id of the job, the policy, and the suffix if there is one.
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

// AskAll adds a request to every task.
func (g *Group) AskAll(name string, amount types.Quantity) {
	for i := range g.Tasks {
		g.Ask(i, name, amount)
	}
}

// Either adds alternatives to the i-th task: with those that it has, every combination
// is one, in the order of preference of those that were there first.
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

// Provide has the i-th task give a resource to its node.
func (g *Group) Provide(i int, name string, amount types.Quantity, when types.When) {
	t := &g.Tasks[i].Task
	t.Provides = append(slices.Clone(t.Provides), types.Provide{Name: name, Amount: amount, When: when})
}

// Make has an ephemeral resource made with the tasks, which ends with the job.
func (g *Group) Make(name string, capacity types.Quantity, where controlplane.Where) {
	g.Resources = append(g.Resources, Set{Name: name, Capacity: capacity, Where: where, Options: OfJob(g.ID)})
}

// OfJob is a resource that ends with a job; of capacity 0 it is there, and closed.
func OfJob(job string) controlplane.SetOptions {
	return controlplane.SetOptions{Declare: true, Lifetime: types.OfJob, Owner: job}
}

// Reserve has bundles locked for the job, under an id.
func (g *Group) Reserve(id string, r types.Reservation) {
	r.Job, r.Session = g.ID, g.Session
	g.Reservations = append(g.Reservations, Reservation{ID: id, Reservation: r})
}

// Finally has f called when all policies of the job were applied: for one that goes by
// what the others ask for.
func (g *Group) Finally(f func() error) { g.finally = append(g.finally, f) }

// Lastly has f called after all that is called finally: for one that locks, or counts, all
// of what is asked for.
func (g *Group) Lastly(f func() error) { g.last = append(g.last, f) }

// Apply applies policies, in their order, and checks that they go together.
func (g *Group) Apply(policies []Policy) error {
	kinds := make([]types.Policy, len(policies))
	for i, p := range policies {
		kinds[i].Kind = p.Kind()
	}
	names := Labels(kinds)
	var errs []error
	for i, p := range policies {
		g.kind, g.label = kinds[i].Kind, names[i]
		_, g.opens = p.(opener)
		finally, last := len(g.finally), len(g.last)
		if err := g.checked(p.Apply(g)); err != nil {
			errs = append(errs, g.named(i, g.kind, err))
		}
		g.later(i, g.finally[finally:])
		g.later(i, g.last[last:])
	}
	errs = append(errs, g.conflicts()...)
	if err := Join(errs); err != nil {
		return err
	}
	for _, f := range slices.Concat(g.finally, g.last) {
		errs = append(errs, f())
	}
	return Join(errs)
}

// later has functions of the i-th policy called as such, and their errors named.
func (g *Group) later(i int, functions []func() error) {
	kind, label := g.kind, g.label
	for j, f := range functions {
		functions[j] = func() error {
			g.kind, g.label = kind, label
			if err := g.checked(f()); err != nil {
				return g.named(i, kind, err)
			}
			return nil
		}
	}
}

// checked returns an error of a policy, and that of the names that it made.
func (g *Group) checked(err error) error {
	err = errors.Join(err, g.tooLong)
	g.tooLong = nil
	if err == nil {
		return nil
	}
	return types.Errorf(types.ClassOf(err), "%w", err)
}

// named says of which policy an error is.
func (g *Group) named(i int, kind string, err error) error {
	return types.Errorf(types.ClassOf(err), "policies[%d] (%s): %w", i, kind, err)
}

// Invalid is an error that names a parameter.
func Invalid(format string, args ...any) error {
	return types.Errorf(types.Invalid, "%w", fmt.Errorf(format, args...))
}
