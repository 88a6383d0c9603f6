package esl

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

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

// Keeper is a Policy with something to do while its tasks last.
type Keeper interface {
	Policy
	// Next returns what is to be done as things are, nothing if they are as they
	// should be. It is pure: the same state gives the same plan, and what was done is
	// found in the state. So whoever takes over, at whatever moment, goes on.
	Next(s *State) Plan
}

// Teller is a Policy that says what a task waits for on its account.
type Teller interface {
	Policy
	// Why returns it in one sentence; "" if it waits for nothing of the policy.
	Why(s *State, task string) string
}

// Shared is a Policy that jobs share: it is declared under an id of its own, and lasts
// until it is withdrawn. Jobs name it by other policies; see Refers.
type Shared interface {
	Keeper
	// Declare returns the resources that it has from the first moment on.
	Declare(id string) ([]Set, error)
}

// Refers is a Policy that is about a shared one.
type Refers interface {
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

// stored returns a policy as it is stored.
func stored(p Policy) (types.Policy, error) {
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
