package policy

import (
	"context"
	"reflect"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/apply"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/types"
)

// KnownPolicies are the policies of the library, in the form of files and flags.
func KnownPolicies() manifest.Policies {
	out := make(manifest.Policies)
	for name, empty := range builtin.Kinds() {
		_, shared := empty().(esl.Shared)
		d := esl.Describe(empty())
		out[name] = manifest.PolicyKind{New: func() any { return parametersOf(empty()) }, Desc: d.Does, Job: !d.OnlyDeclared, Shared: shared}
	}
	return out
}

// parametersOf returns a pointer to the parameters of a policy.
func parametersOf(p esl.Policy) any {
	into := reflect.New(reflect.TypeOf(p))
	into.Elem().Set(reflect.ValueOf(p))
	if into.Elem().Kind() == reflect.Pointer {
		return p
	}
	return into.Interface()
}

// Of returns a policy of the library, or of another program.
func Of(made manifest.Made) esl.Policy {
	if with, unknown := made.Parameters.(manifest.With); unknown {
		return esl.Foreign{Name: made.Name, With: string(with)}
	}
	if p, ok := reflect.ValueOf(made.Parameters).Elem().Interface().(esl.Policy); ok {
		return p
	}
	return made.Parameters.(esl.Policy)
}

// library expands jobs by the policies of the library.
type library struct{ *esl.Client }

func NewLibrary(client *controlplane.Client) library { return library{builtin.New(client)} }

// Expand returns a job with the additions of its policies.
func (l library) Expand(ctx context.Context, w apply.RequestedJob) (apply.Expanded, error) {
	job := esl.Job{ID: w.ID, Name: w.Name, NoneSince: w.NoneSince, Wished: true, Tasks: w.Tasks, Shared: make(map[string]esl.Policy), Beside: w.Beside}
	for id, stored := range w.Declared {
		p, err := l.Kinds.Read(stored)
		if err != nil {
			return apply.Expanded{}, err
		}
		job.Shared[id] = p
	}
	policies, err := l.read(w.Policies)
	if err != nil {
		return apply.Expanded{}, err
	}
	e, err := l.Client.Expand(ctx, job, policies...)
	if err != nil {
		return apply.Expanded{}, err
	}
	out := apply.Expanded{ID: e.ID, Tasks: e.Tasks, Resources: settings(e.Resources), Add: e.Add}
	for _, r := range e.Reservations {
		out.Reservations = append(out.Reservations, controlplane.NamedReservation(r))
	}
	return out, nil
}

// LaunchWith submits a job with policies.
func (l library) LaunchWith(ctx context.Context, job controlplane.Job, tasks []controlplane.Submission, policies []esl.Policy) (controlplane.Launched, error) {
	return l.Submit(ctx, esl.Job{ID: job.ID, Name: job.Name, Wished: true, Tasks: tasks}, policies...)
}

func (l library) read(stored []types.Policy) ([]esl.Policy, error) {
	policies := make([]esl.Policy, len(stored))
	for i, one := range stored {
		p, err := l.Kinds.Read(one)
		if err != nil {
			return nil, err
		}
		policies[i] = p
	}
	return policies, nil
}

// Declare returns the resources that a shared policy creates when it is declared.
func (l library) Declare(id string, stored types.Policy) ([]controlplane.Setting, error) {
	p, err := l.Kinds.Read(stored)
	if err != nil {
		return nil, err
	}
	if _, foreign := p.(esl.Foreign); foreign {
		return nil, nil // its own program creates them
	}
	shared, ok := p.(esl.Shared)
	if !ok {
		return nil, types.Errorf(types.Invalid, "%s is of one job: write it to the policies of that", stored.Kind)
	}
	sets, err := esl.Declared(id, shared)
	return settings(sets), err
}

func settings(sets []esl.Set) []controlplane.Setting {
	out := make([]controlplane.Setting, len(sets))
	for i, s := range sets {
		out[i] = controlplane.Setting(s)
	}
	return out
}
