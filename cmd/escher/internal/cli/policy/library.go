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
	use := out[esl.Use{}.Kind()]
	for _, r := range esl.Renamings() {
		use.Former = append(use.Former, manifest.Former{Name: r.Kind, Fields: map[string]string{"name": r.Name}, With: map[string]string{"of": r.Of}})
	}
	out[esl.Use{}.Kind()] = use
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
