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
	texts := PolicyTexts()
	for name, empty := range builtin.Kinds() {
		_, shared := empty().(esl.Shared)
		out[name] = manifest.PolicyKind{
			New: func() any { return parametersOf(empty()) }, Desc: texts[name].Does,
			Job: !texts[name].Declared, Shared: shared,
		}
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
