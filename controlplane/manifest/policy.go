package manifest

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

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
	// Use is how a job uses a declared one by a text; nil means only by the policy use.
	Use *UseText
	// Desc describes it in a few words.
	Desc string
	// Former are its former names. They are read with a notice.
	Former []Former
}

// UseText is a field of a job whose text means the use of a declared policy: queue: batch.
type UseText struct {
	// Key is the field. Several kinds may have the same.
	Key string
	// Pattern matches the texts, for the JSON Schema. Desc describes them; empty if that of another
	// kind with the same field does.
	Pattern, Desc string
	// Policy is the policy of the job, and With returns its parameters; nil means that the text is
	// of another kind. Invalid: the error begins with the field, and names the remedy.
	Policy string
	With   func(text string) (map[string]any, error)
}

// Former is a former name of a policy, with the former names of its fields, by present name, and
// fields that it stands for.
type Former struct {
	Name         string
	Fields, With map[string]string
}

// former returns the present name of a policy, and what a former name stood for; ok is false for
// other names.
func (p Policies) former(name string) (now string, f Former, ok bool) {
	for now, kind := range p {
		if at := slices.IndexFunc(kind.Former, func(f Former) bool { return f.Name == name }); at >= 0 {
			return now, kind.Former[at], true
		}
	}
	return "", f, false
}

// present returns a policy in its present form, and the notice if it had a former name.
func (p Policies) present(name string, with *yaml.Node) (present string, fields *yaml.Node, notice string) {
	present, former, ok := p.former(name)
	if !ok {
		return name, with, ""
	}
	out := *with
	notice = fmt.Sprintf("policy %s is called %s now", name, present)
	out.Content = slices.Clone(with.Content)
	has := func(field string) bool { return keyAt(with, field) >= 0 }
	for _, field := range slices.Sorted(maps.Keys(former.Fields)) {
		was := former.Fields[field]
		if field != was {
			notice += fmt.Sprintf(", and its field %s is called %s", was, field)
		}
		if at := keyAt(with, was); at >= 0 && !has(field) {
			key := *with.Content[at]
			key.Value, out.Content[at] = field, &key
		}
	}
	for _, field := range slices.Sorted(maps.Keys(former.With)) {
		if with.Kind == yaml.MappingNode && !has(field) {
			out.Content = append(out.Content, written(field), written(former.With[field]))
		}
	}
	return present, &out, notice
}

// chooser is a text type with few allowed values.
type chooser interface{ Choices() []string }

// fits reports whether it may be used here.
func (k PolicyKind) fits(shared bool) bool { return shared && k.Shared || !shared && k.Job }

// names returns the names of the policies that may be declared or used, sorted.
func (p Policies) names(shared bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p)), func(name string) bool { return !p[name].fits(shared) })
}

// Policy is a policy with its parameters.
type Policy struct {
	Name string `json:"name" desc:"the policy, such as gang; another party's with a domain, acme.com/even"`
	// With is a pointer as returned by New of its kind, or a With for an unknown kind. nil means
	// none.
	With any `json:"with,omitempty" desc:"its parameters"`
}

// With are the parameters of a policy as text: a JSON object, empty for none.
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
	Policy  Policy `json:"policy" desc:"what it is, unless that is given by its own name: queue: {limit: 8}"`
	Session string `json:"session,omitempty" desc:"the session it ends with; it stays until it is removed if it is left out" is:"name"`
}

// ReadPolicy parses a policy written as NAME or NAME={JSON}, and checks its parameters. notice says
// that it was given by a former name; it is empty if not. Invalid: the error names all that is wrong.
func ReadPolicy(text string, known Policies) (p Policy, notice string, err error) {
	name, with, given := strings.Cut(text, "=")
	if !given {
		return makePolicy(name, &yaml.Node{Kind: yaml.MappingNode}, known)
	}
	var parsed yaml.Node
	d := yaml.NewDecoder(strings.NewReader(with))
	if err := d.Decode(&parsed); err != nil || len(parsed.Content) == 0 || d.Decode(new(yaml.Node)) != io.EOF {
		return Policy{}, "", types.Errorf(types.Invalid, "%s: %q is not an object: write it such as %s='{\"field\": 1}'", name, with, name)
	}
	return makePolicy(name, parsed.Content[0], known)
}

// MakePolicy makes a policy with written parameters, and checks them. Their values are texts, whole
// numbers, times, and lists and maps of these. The rest is as for ReadPolicy.
func MakePolicy(name string, with map[string]any, known Policies) (p Policy, notice string, err error) {
	return makePolicy(name, written(with), known)
}

func makePolicy(name string, with *yaml.Node, known Policies) (p Policy, notice string, err error) {
	n := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{written("name"), written(name), written("with"), with}}
	d := &decoder{known: known}
	p.Name = name
	if d.plain(n, "") {
		d.policy(n, &p, "")
	}
	if len(d.notices) > 0 {
		notice = d.notices[0].Text
	}
	var all []string
	for _, p := range d.problems {
		all = append(all, name+": "+p.at())
	}
	if len(all) > 0 {
		return p, notice, types.Errorf(types.Invalid, "%s", strings.Join(all, "\n"))
	}
	return p, notice, nil
}

// written returns a value as the decoder reads it.
func written(v any) *yaml.Node {
	switch v := v.(type) {
	case string:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v}
	case time.Duration:
		return written(v.String())
	case int:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(v)}
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v)}
	case []string:
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for _, one := range v {
			list.Content = append(list.Content, written(one))
		}
		return list
	case []any:
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for _, one := range v {
			list.Content = append(list.Content, written(one))
		}
		return list
	case map[string]any:
		object := &yaml.Node{Kind: yaml.MappingNode}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			object.Content = append(object.Content, written(name), written(v[name]))
		}
		return object
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
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
	at, with, in := valueOf(n, "name"), valueOf(n, "with"), below(path, "with")
	present, with, notice := d.known.present(p.Name, with)
	if p.Name = present; notice != "" {
		d.notices = append(d.notices, Notice{at.Line, notice + ": change it before the next release"})
	}
	kind, known := d.known[p.Name]
	switch {
	case !known && strings.Contains(p.Name, "/"):
		if err := types.ValidatePolicyKind(below(path, "name"), p.Name); err != nil {
			_, text, _ := strings.Cut(err.Error(), ": ")
			d.wrong(at, below(path, "name"), "%s", text)
		}
		var text With
		if with.Kind != yaml.MappingNode {
			d.wrong(with, in, "%s is given: write fields", shown(with))
		} else if err := unmarshal(with, &text); err != nil {
			d.wrong(with, in, "%s", err)
		}
		p.With = text.stored()
	case !known:
		d.wrong(at, below(path, "name"), "%q is unknown: %s, or another party's policy with a domain, such as acme.com/even", p.Name, d.meant(p.Name))
	case !kind.fits(d.shared):
		d.wrong(at, below(path, "name"), "%s", misplaced(p.Name, kind.Shared))
	default:
		p.With = d.parameters(with, kind, in)
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
		return name + " is shared by jobs: declare it in its own document, with kind: Policy, and write use: {name: …} in the job"
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

// parameters decodes the parameters of a policy of a kind.
func (d *decoder) parameters(n *yaml.Node, kind PolicyKind, path string) any {
	before := len(d.problems)
	into := kind.New()
	d.object(n, reflect.ValueOf(into).Elem(), path)
	if len(d.problems) > before {
		return nil
	}
	if v, ok := into.(interface{ Validate() error }); ok {
		d.told(n, v.Validate(), path)
	}
	return into
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

// keyAt returns the index of a field among the content of an object, -1 if it has none.
func keyAt(n *yaml.Node, name string) int {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Kind == yaml.MappingNode && n.Content[i].Value == name {
			return i
		}
	}
	return -1
}
