package policy

import (
	"reflect"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
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
