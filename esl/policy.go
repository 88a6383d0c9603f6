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
	"time"

	"github.com/escher-sched/escher/types"
)

// Policy is what a library is to the tasks of a job. Its fields are its parameters, in
// specs too: they are stored as JSON.
type Policy interface {
	// Kind is its name, such as gang; of somebody else's with a domain, acme.com/even.
	Kind() string
	// Apply adds to the group what the policy asks for. It is called once, at
	// submission, before anything is written, and depends on nothing else. Invalid:
	// the error names a parameter, its value, and the remedy.
	Apply(g *Group) error
}

// Controller is a Policy with something to do while its tasks last.
type Controller interface {
	Policy
	// Next returns what is to be done as things are, nothing if they are as they
	// should be. It is pure: the same state gives the same plan, and what was done is
	// found in the state. So whoever takes over, at whatever moment, goes on.
	Next(s *State) Plan
}

// Explainer is a Policy that says what a task waits for on its account.
type Explainer interface {
	Policy
	// Why returns it in one sentence; "" if it waits for nothing of the policy.
	Why(s *State, task string) string
}

// Shared is a Policy that jobs share: it is declared under an id of its own, and lasts
// until it is withdrawn. Jobs name it by other policies; see SharedRef.
type Shared interface {
	Controller
	// Declare returns the resources that it has from the first moment on.
	Declare(id string) ([]Set, error)
}

// SharedRef is a Policy that is about a shared one.
type SharedRef interface {
	Policy
	// Shared returns the id of the shared policy.
	Shared() string
}

// Kinds are the policies that are known, by name: functions that make an empty one.
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

// Names returns the names, sorted.
func (k Kinds) Names() []string {
	names := make([]string, 0, len(k))
	for name := range k {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Read makes a policy of what is stored; of a kind with a domain that is not known, a
// Foreign. NotFound: the kind is not known. Invalid: a parameter is none of the kind's, or
// of another type.
func (k Kinds) Read(p types.Policy) (Policy, error) {
	f, ok := k[p.Kind]
	if !ok && foreign(p.Kind) {
		made := Foreign{Name: p.Kind, With: p.With}
		if err := made.check(); err != nil {
			return nil, types.Errorf(types.Invalid, "policy %s: %w", p.Kind, err)
		}
		return made, nil
	}
	if !ok {
		return nil, types.Errorf(types.NotFound, "policy %q is unknown: use %s, or one with a domain, such as acme.com/even, that somebody serves", p.Kind, strings.Join(k.Names(), ", "))
	}
	made := f()
	if p.With == "" {
		return made, nil
	}
	into := reflect.New(reflect.TypeOf(made))
	into.Elem().Set(reflect.ValueOf(made)) // what it has beside parameters
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

// Stored returns a policy as it is stored.
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

// Labels are what names of the policies of a job begin with: the kind without the domain,
// with a number where that is taken.
func Labels(policies []types.Policy) []string {
	taken := make(map[string]bool, len(policies))
	out := make([]string, len(policies))
	for i, p := range policies {
		name := p.Kind
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

// ClusterScoped is a Controller that decides by what is anywhere in the cluster, by whomever: it is
// asked whenever anything changes. Others are asked when something changes of their
// job or, if they are shared, of the jobs that refer to them: tasks, statuses, and
// whatever is named after it; and when nodes come, go, or are cordoned.
type ClusterScoped interface {
	Controller
	ClusterScoped()
}

// Watcher is a Controller that goes by tasks, jobs or resources of its namespace that are not
// of its own job: it is asked when they change, too.
type Watcher interface {
	Controller
	// Watches returns their ids or names. It is called once, when the policy is read.
	Watches() []string
}

// RateLimited is a Controller that is asked at most so often: for who looks at very much.
type RateLimited interface {
	Controller
	// Pace is the least time between two looks. It is called once, when the policy is
	// read.
	Pace() time.Duration
}

// Validator is a Policy that checks its parameters by themselves. Who keeps it says what is
// wrong with them, as who submitted it in a file may not know the policy.
type Validator interface {
	Policy
	// Validate checks the parameters. Invalid: the error names one, its value and the
	// remedy.
	Validate() error
}

// misread says of an error of encoding/json which parameter of a policy is wrong.
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
