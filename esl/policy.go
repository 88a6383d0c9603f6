package esl

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/types"
)

// Policy steers the tasks of a job by creating resources and making the tasks request them.
// Its fields are its parameters. Escher stores them as JSON.
type Policy interface {
	// Kind returns the name of the policy, such as gang. Policies of other programs have a
	// domain: acme.com/even.
	Kind() string
	// Apply adds the requests and resources of the policy to the group. The client calls it
	// once, at submission, before it writes anything. The result depends on the group alone.
	// Invalid: the error names a parameter, its value and the remedy.
	Apply(g *Group) error
}

// Controller is a Policy that acts while its tasks last.
type Controller interface {
	Policy
	// Next returns the changes that bring the cluster to the state the policy wants; an empty
	// plan means none. It is pure: the same state gives the same plan, and the state shows the
	// changes made so far. So any process can take over at any moment.
	Next(s *State) Plan
}

// Explainer is a Policy that explains why a task waits.
type Explainer interface {
	Policy
	// Why returns what the task waits for; a zero reason means nothing of this policy. See why.Say.
	Why(s *State, task string) why.Reason
}

// Shared is a Policy that several jobs share. An administrator or a user declares it under an id
// of its own, and it lasts until it is withdrawn. Jobs take part by Use.
//
// A method Use(*Group, Use) error, if it has one, adds what the tasks of such a job need. Without
// it, each task requests one of <job>.<kind>, if the kind has a domain. WhyUsed(*State, Use, task
// string) why.Reason explains why such a task waits, if that depends on the use; the state is that
// of the shared policy, as it is for Why.
type Shared interface {
	Controller
	// Declare returns the resources that the policy creates when it is declared.
	Declare(id string) ([]controlplane.Resource, error)
}

// Kinds maps the name of each known kind of policy to a function that makes an empty policy.
type Kinds map[string]func() Policy

// With returns the kinds with others added, which replace those of the same name.
func (k Kinds) With(more ...func() Policy) Kinds {
	out := make(Kinds, len(k)+len(more))
	for name, f := range k {
		out[name] = f
	}
	for _, f := range more {
		out[f().Kind()] = f
	}
	return out
}

// Of returns the function of a stored kind, which may have its former name; nil if it is not known.
func (k Kinds) Of(kind string) func() Policy { return k[presentKind(types.Policy{Kind: kind}).Kind] }

// Names returns the names, sorted.
func (k Kinds) Names() []string {
	names := make([]string, 0, len(k))
	for name := range k {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Read makes a policy from its stored form; a Foreign if its kind is unknown and has a domain.
// NotFound: the kind is not known. Invalid: a parameter is unknown, or has the wrong type.
func (k Kinds) Read(p types.Policy) (Policy, error) {
	p = presentKind(p)
	f, ok := k[p.Kind]
	if !ok && p.Kind == kindUse {
		f, ok = func() Policy { return Use{} }, true
	}
	if u, former := renamed(p); !ok && former {
		return u, nil
	}
	if !ok && foreign(p.Kind) {
		made := Foreign{Name: p.Kind, With: p.With}
		if err := made.check(); err != nil {
			return nil, types.Errorf(types.Invalid, "policy %s: %w", p.Kind, err)
		}
		return made, nil
	}
	if !ok {
		return nil, types.Errorf(types.NotFound, "policy %q is unknown: use %s, or one with a domain, such as acme.com/even, that another program runs", p.Kind, strings.Join(k.Names(), ", "))
	}
	made := f()
	if p.With == "" {
		return made, nil
	}
	into := reflect.New(reflect.TypeOf(made))
	into.Elem().Set(reflect.ValueOf(made)) // defaults beside the parameters
	d := json.NewDecoder(strings.NewReader(p.With))
	d.DisallowUnknownFields()
	err := d.Decode(into.Interface())
	if err != nil {
		err = misread(err, reflect.TypeOf(made))
	}
	if _, end := d.Token(); err == nil && !errors.Is(end, io.EOF) {
		err = errors.New("there is more behind the parameters")
	}
	if !strings.HasPrefix(p.With, "{") {
		err = errors.New("the parameters are no object")
	}
	if err != nil {
		return nil, types.Errorf(types.Invalid, "policy %s: %w", p.Kind, err)
	}
	return into.Elem().Interface().(Policy), nil
}

// Stored returns the stored form of a policy.
func Stored(p Policy) (types.Policy, error) {
	with, err := json.Marshal(p)
	if err != nil {
		return types.Policy{}, types.Errorf(types.Invalid, "policy %s: %w", p.Kind(), err)
	}
	text := string(with)
	if text == "{}" {
		text = ""
	}
	return types.Policy{Kind: p.Kind(), With: text}, nil
}

// Labels returns the labels that names of the policies of a job contain: the kind, or that of the
// shared policy in use, without the domain, and with a number where that is taken.
func Labels(policies []types.Policy) []string {
	kinds := make([]string, len(policies))
	for i, p := range policies {
		kinds[i] = p.Kind
		if u, ok := UseOf(p); ok && p.Kind == kindUse {
			kinds[i] = labelKind(u)
		}
	}
	return labels(kinds)
}

// labels returns the labels of policies with these kinds.
func labels(kinds []string) []string {
	taken := make(map[string]bool, len(kinds))
	out := make([]string, len(kinds))
	for i, name := range kinds {
		if _, after, ok := strings.Cut(name, "/"); ok {
			name = after
		}
		out[i] = name
		for n := 2; taken[out[i]]; n++ {
			out[i] = name + "-" + strconv.Itoa(n)
		}
		taken[out[i]] = true
	}
	return out
}

// Validator is a Policy that checks its parameters by themselves. The program that runs the policy
// reports the errors, because a submitter with a file may not know the policy.
type Validator interface {
	Policy
	// Validate checks the parameters. Invalid: the error names one, its value and the
	// remedy.
	Validate() error
}

// misread names the wrong parameter of a policy in an error of encoding/json.
func misread(err error, parameters reflect.Type) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return fmt.Errorf("%s: a %s is given: write what is of type %s", wrong.Field, wrong.Value, wrong.Type)
	}
	if parameters.Kind() == reflect.Pointer {
		parameters = parameters.Elem()
	}
	name, unknown := strings.CutPrefix(err.Error(), "json: unknown field ")
	if !unknown || parameters.Kind() != reflect.Struct {
		return err
	}
	var names []string
	for i := range parameters.NumField() {
		f := parameters.Field(i)
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.IsExported() && tag != "-" {
			names = append(names, cmp.Or(tag, f.Name))
		}
	}
	return fmt.Errorf("%s: is unknown: use %s", strings.Trim(name, `"`), strings.Join(names, ", "))
}
