package manifest

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// keys lists the fields of an object of a type that are policies by their own names: in a job those
// that it may have, and uses of declared ones; in a shared policy those that may be declared.
func (p Policies) keys(of reflect.Type) []string {
	switch of {
	case reflect.TypeFor[SharedPolicy]():
		return p.names(true)
	case reflect.TypeFor[Job]():
		return slices.Compact(slices.Sorted(slices.Values(append(p.names(false), slices.Collect(maps.Keys(p.uses()))...))))
	}
	return nil
}

// isKey reports whether keys lists a name, or the present name of a former one.
func (p Policies) isKey(of reflect.Type, name string) bool {
	name = p.keyNow(name)
	switch of {
	case reflect.TypeFor[SharedPolicy]():
		return p[name].Shared
	case reflect.TypeFor[Job]():
		return p[name].Job || len(p.uses()[name]) > 0
	}
	return false
}

// keyNow returns the present name of a policy, of which a name may be the former one. The keys of
// texts that mean a use have precedence.
func (p Policies) keyNow(name string) string {
	if _, known := p[name]; known || len(p.uses()[name]) > 0 {
		return name
	}
	if now, _, ok := p.former(name); ok {
		return now
	}
	return name
}

// uses returns the forms of texts that mean the use of a declared policy, by their fields. The
// forms of a field are in the order of the names of their kinds.
func (p Policies) uses() map[string][]*UseText {
	out := make(map[string][]*UseText)
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if use := p[name].Use; use != nil && !p[use.Key].Job {
			out[use.Key] = append(out[use.Key], use)
		}
	}
	return out
}

// policiesByKey decodes the policies of a job, or the one of a shared policy, that are fields of n
// at those indices.
func (d *decoder) policiesByKey(n *yaml.Node, at []int, v reflect.Value, path string) {
	switch into := v.Addr().Interface().(type) {
	case *Job:
		for _, i := range at {
			if p, ok := d.policyByKey(n.Content[i], n.Content[i+1], path); ok {
				into.Policies = append(into.Policies, p)
			}
		}
	case *SharedPolicy:
		first := n.Content[at[0]]
		if other := keyAt(n, "policy"); other >= 0 {
			first, at = n.Content[other], append([]int{other}, at...)
		} else if p, ok := d.policyByKey(first, n.Content[at[0]+1], path); ok {
			into.Policy = p
		}
		for _, i := range at[1:] {
			second := n.Content[i]
			d.wrong(second, below(path, second.Value), "is a second policy, the first is in line %d: write a document for each", first.Line)
		}
	}
}

// policyByKey decodes a policy by its own name. ok is false if it is wrong.
func (d *decoder) policyByKey(key, value *yaml.Node, path string) (p Policy, ok bool) {
	path = below(path, key.Value)
	before := len(d.problems)
	name := d.known.keyNow(key.Value)
	kind := d.known[name]
	if name != key.Value {
		_, with, notice := d.known.present(key.Value, value)
		value = with
		d.notices = append(d.notices, Notice{key.Line, notice + ": change it before the next release"})
	}
	switch {
	case !kind.fits(d.shared):
		p = d.useByText(value, d.known.uses()[key.Value], path)
	case value.Kind == yaml.ScalarNode:
		what := shown(value) + " is given"
		if value.Tag == "!!null" {
			what = "is empty"
		}
		d.wrong(value, path, "%s: write its parameters%s", what, kind.example())
	default:
		p = Policy{Name: name, With: d.parameters(value, kind, path)}
	}
	return p, len(d.problems) == before
}

// example says how to write the parameters of a policy.
func (k PolicyKind) example() string {
	all := Parameters(k)
	switch {
	case len(all) == 0:
		return ", {}"
	case all[0].Required:
		return ", such as {" + all[0].Name + ": …}"
	}
	return ", such as {" + all[0].Name + ": …}, or {} for none"
}

// useByText decodes a text that means the use of a declared policy.
func (d *decoder) useByText(value *yaml.Node, forms []*UseText, path string) Policy {
	if value.Kind != yaml.ScalarNode {
		d.wrong(value, path, "%s is given: write the name of a declared one, and declare it in its own document, with kind: Policy", shown(value))
		return Policy{}
	}
	var text string
	before := len(d.problems)
	if d.decode(value, reflect.ValueOf(&text).Elem(), path); len(d.problems) > before {
		return Policy{}
	}
	for _, form := range forms {
		with, err := form.With(text)
		if err != nil {
			_, what, _ := strings.Cut(err.Error(), ": ")
			d.wrongValue(value, path, "%s", what)
			return Policy{}
		}
		if with != nil {
			node := written(with)
			atLine(node, value.Line)
			return Policy{Name: form.Policy, With: d.parameters(node, d.known[form.Policy], path)}
		}
	}
	d.wrong(value, path, "%q names no declared policy: write its name", text)
	return Policy{}
}

// atLine sets the line of a value and everything in it.
func atLine(n *yaml.Node, line int) {
	n.Line = line
	for _, child := range n.Content {
		atLine(child, line)
	}
}
