package library

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
		out[name] = manifest.PolicyKind{New: func() any { return parametersOf(empty()) }, Desc: d.Does, Job: !d.OnlyDeclared, Shared: shared, Use: useText(name, d)}
	}
	use := out[esl.Use{}.Kind()]
	for _, r := range esl.Renamings() {
		use.Former = append(use.Former, manifest.Former{Name: r.Kind, Fields: map[string]string{"name": r.Name}, With: map[string]string{"of": r.Of}})
	}
	out[esl.Use{}.Kind()] = use
	for now, was := range esl.FormerKinds() {
		kind := out[now]
		kind.Former = append(kind.Former, manifest.Former{Name: was})
		out[now] = kind
	}
	return out
}

// useText returns the field of a job that means the use of a declared policy of a kind: its flag.
func useText(kind string, d esl.Description) *manifest.UseText {
	if !d.OnlyDeclared {
		return nil
	}
	for _, f := range d.Flags {
		if f.Text == nil {
			continue
		}
		return &manifest.UseText{Key: f.Name, Pattern: f.Pattern, Desc: f.Usage, Policy: esl.Use{}.Kind(), With: func(text string) (map[string]any, error) {
			with, err := f.Text(text)
			if with != nil {
				with["of"] = kind
			}
			return with, err
		}}
	}
	return nil
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
