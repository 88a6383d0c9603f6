package manifest

import (
	"encoding/json"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/escher-sched/escher/types"
)

// Policies are the known policies, by name. Those of another party have a domain in their names,
// acme.com/even, and may be unknown.
type Policies map[string]PolicyKind

// PolicyKind describes a known policy.
type PolicyKind struct {
	// New returns a pointer to empty parameters. Their fields have the tags of Task's fields.
	New func() any
	// Job reports whether jobs may name it, Shared whether it may be declared by itself, for jobs
	// to share.
	Job, Shared bool
	// Desc describes it in a few words.
	Desc string
}

// Chooses is a text type with few allowed values.
type Chooses interface{ Choices() []string }

// fits reports whether it may be used here.
func (k PolicyKind) fits(shared bool) bool { return shared && k.Shared || !shared && k.Job }

// names returns the names of the policies that may be declared or used, sorted.
func (p Policies) names(shared bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p)), func(name string) bool { return !p[name].fits(shared) })
}

// Policy is a policy with its parameters.
type Policy struct {
	Name string `json:"name" desc:"the policy, such as gang; another party's with a domain, acme.com/even"`
	With With   `json:"with,omitempty" desc:"its parameters"`
}

// With are the parameters of a policy: a JSON object, empty for none.
type With string

// UnmarshalJSON keeps the text unchanged.
func (w *With) UnmarshalJSON(text []byte) error {
	*w = With(text)
	return nil
}

// MarshalJSON returns the text unchanged.
func (w With) MarshalJSON() ([]byte, error) {
	if w == "" {
		return []byte("{}"), nil
	}
	return []byte(w), nil
}

// stored returns its stored form.
func (w With) stored() With {
	if w == "{}" {
		return ""
	}
	return w
}

// SharedPolicy is a policy that jobs share and refer to by their own policies.
type SharedPolicy struct {
	Name    string `json:"name" desc:"its id, by which policies of jobs refer to it" is:"name"`
	Policy  Policy `json:"policy" desc:"what it is"`
	Session string `json:"session,omitempty" desc:"the session it ends with; it stays until it is removed if it is left out" is:"name"`
}

// Stored returns its stored form.
func (p Policy) Stored() types.Policy { return types.Policy{Kind: p.Name, With: string(p.With)} }

// ReadPolicy parses a policy written as NAME or NAME={JSON}, and checks its parameters. Invalid:
// the error names all that is wrong.
func ReadPolicy(text string, known Policies) (Policy, error) {
	name, with, given := strings.Cut(text, "=")
	n := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
		{Kind: yaml.ScalarNode, Tag: "!!str", Value: "name"}, {Kind: yaml.ScalarNode, Tag: "!!str", Value: name},
	}}
	if given {
		var parsed yaml.Node
		text := yaml.NewDecoder(strings.NewReader(with))
		if err := text.Decode(&parsed); err != nil || len(parsed.Content) == 0 || text.Decode(new(yaml.Node)) != io.EOF {
			return Policy{}, types.Errorf(types.Invalid, "%s: %q is not an object: write it such as %s='{\"field\": 1}'", name, with, name)
		}
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "with"}, parsed.Content[0])
	}
	d := &decoder{known: known}
	var out Policy
	if d.plain(n, "") {
		d.policy(n, &out, "")
	}
	var all []string
	for _, p := range d.problems {
		all = append(all, name+": "+p.at())
	}
	if len(all) > 0 {
		return out, types.Errorf(types.Invalid, "%s", strings.Join(all, "\n"))
	}
	return out, nil
}

// policy decodes a policy, with the parameters of its kind.
func (d *decoder) policy(n *yaml.Node, p *Policy, path string) {
	if n.Kind == yaml.ScalarNode {
		d.wrong(n, path, "%s is given: write {name: %s}", shown(n), n.Value)
		return
	}
	before := len(d.problems)
	d.object(n, reflect.ValueOf(p).Elem(), path)
	if len(d.problems) > before {
		return
	}
	at := valueOf(n, "name")
	kind, known := d.known[p.Name]
	switch {
	case !known && strings.Contains(p.Name, "/"):
		if err := types.ValidatePolicyKind(below(path, "name"), p.Name); err != nil {
			_, text, _ := strings.Cut(err.Error(), ": ")
			d.wrong(at, below(path, "name"), "%s", text)
		}
		if with := valueOf(n, "with"); with.Kind != yaml.MappingNode {
			d.wrong(with, below(path, "with"), "%s is given: write fields", shown(with))
		}
		p.With = p.With.stored()
	case !known:
		d.wrong(at, below(path, "name"), "%q is unknown: %s, or another party's policy with a domain, such as acme.com/even", p.Name, d.meant(p.Name))
	case !kind.fits(d.shared):
		d.wrong(at, below(path, "name"), "%s", misplaced(p.Name, kind.Shared))
	default:
		d.parameters(valueOf(n, "with"), kind, p, below(path, "with"))
	}
}

// meant suggests a policy for an unknown name.
func (d *decoder) meant(name string) string {
	names := d.known.names(d.shared)
	if len(names) == 0 {
		return "no policy is known here"
	}
	return d.known.Suggest(name, names)
}

// Suggest suggests a policy for an unknown name, wherever it may be used, or else lists some to use.
func (p Policies) Suggest(name string, use []string) string {
	if like := near(name, slices.Sorted(maps.Keys(p))); like != "" {
		return "did you mean " + like + "?"
	}
	return "use " + strings.Join(use, ", ")
}

func misplaced(name string, shared bool) string {
	if shared {
		return name + " is shared by jobs: declare it in its own document, with kind: Policy, and refer to that"
	}
	return name + " belongs to one job: add it to the policies of that job"
}

// valueOf returns the value of a field, an empty object if it is missing.
func valueOf(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return &yaml.Node{Kind: yaml.MappingNode, Line: n.Line}
}

// parameters decodes the parameters of a policy, and encodes them in the form of its kind.
func (d *decoder) parameters(n *yaml.Node, kind PolicyKind, p *Policy, path string) {
	before := len(d.problems)
	into := kind.New()
	d.object(n, reflect.ValueOf(into).Elem(), path)
	if len(d.problems) > before {
		return
	}
	if v, ok := into.(interface{ Validate() error }); ok {
		d.told(n, v.Validate(), path)
	}
	text, err := json.Marshal(into)
	if err != nil {
		d.wrong(n, path, "%s", err)
		return
	}
	p.With = With(text).stored()
}

// told adds the problems of fields of n, one line each that begins with the path of its field.
func (d *decoder) told(n *yaml.Node, err error, path string) {
	if err == nil {
		return
	}
	for line := range strings.Lines(err.Error()) {
		field, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		at, field := locate(n, field)
		d.wrong(at, below(path, field), "%s", text)
	}
}

// Parameter is a field of the parameters of a policy.
type Parameter struct {
	Name     string `json:"name"`
	Desc     string `json:"desc"`
	Required bool   `json:"required,omitempty"`
}

// Parameters lists the parameters of a policy, required ones first.
func Parameters(kind PolicyKind) []Parameter {
	var out []Parameter
	t := reflect.TypeOf(kind.New()).Elem()
	for _, required := range []bool{true, false} {
		for _, f := range fields(t) {
			if f.required == required {
				desc := f.desc
				if few := choices(t.Field(f.index).Type); len(few) > 0 {
					desc += " (" + strings.Join(few, ", ") + ")"
				}
				out = append(out, Parameter{f.name, desc, required})
			}
		}
	}
	return out
}
