package esl

import (
	"iter"
	"time"
)

// Description says what a kind of policy does, and which flags add it to a job. A Policy has one if
// it has a method Describe() Description; all policies of a kind return the same. Commands show it.
type Description struct {
	// Does says in a few words what the policy does.
	Does string
	// Frees says what the policy does for a waiting task that fits nowhere; empty means nothing.
	Frees string
	// OnlyDeclared reports whether the policy can only be declared. Jobs take part by Use.
	OnlyDeclared bool
	// OneByOne reports whether an update may replace the tasks of a job one by one: each has its
	// place by itself, and its successor makes the same requests.
	OneByOne bool
	// Flags are the flags that add the policy to a job. Each adds one policy: a Use, with these
	// parameters, if OnlyDeclared.
	Flags []Flag
}

// Describe returns the description of a policy, or an empty one.
func Describe(p Policy) Description {
	if d, ok := p.(interface{ Describe() Description }); ok {
		return d.Describe()
	}
	return Description{}
}

// Parameters are parameters of a policy as a file has them, by name. The values are texts, whole
// numbers, times, lists, and objects, which are Parameters.
type Parameters = map[string]any

// Flag is a flag of a command that submits a job, as data.
//
// Several kinds may have a flag of the same name. One of them has its usage. A given flag is used
// once: by the first policy that it fits, in the order of the kinds.
type Flag struct {
	Name, Usage string
	// One of these returns the parameters that a value stands for; the others are nil. All nil means
	// a switch without a value. No parameters, nil, means that the value does not fit the kind.
	// Invalid: the error names the flag, its value and the remedy.
	Number func(n int) (Parameters, error)
	Time   func(d time.Duration) (Parameters, error)
	Text   func(text string) (Parameters, error)
	Texts  func(texts []string) (Parameters, error) // a flag that may be repeated

	// Switch are the parameters that a switch sets.
	Switch Parameters
	// Pattern matches the texts of a policy that is OnlyDeclared, for the JSON Schema of files.
	Pattern string

	// With are flags that set further parameters of the policy.
	With []Flag
	// Alone says what is wrong if the flag is one of With, and is given by itself.
	Alone string
	// CountsTasks reports whether the number is also the number of tasks in the job.
	CountsTasks bool
	// Values are values that a shell may propose.
	Values Values
}

// Values are values of a flag.
type Values struct {
	// Words are values, or beginnings of values.
	Words []string
	// Jobs means ids of jobs and tasks, Resources names of ephemeral resources.
	Jobs, Resources bool
	// Shared means ids of shared policies of this kind, each followed by Then. It is that of the
	// flag's policy if that is OnlyDeclared.
	Shared, Then string
}

// Sets returns the function of a flag whose value is that of a parameter.
func Sets[V any](parameter string) func(V) (Parameters, error) {
	return func(value V) (Parameters, error) { return Parameters{parameter: value}, nil }
}

// AllFlags returns the flags, each followed by its further flags.
func (d Description) AllFlags() iter.Seq[Flag] {
	return func(yield func(Flag) bool) {
		for _, f := range d.Flags {
			if !yield(f) {
				return
			}
			for _, with := range f.With {
				if !yield(with) {
					return
				}
			}
		}
	}
}
