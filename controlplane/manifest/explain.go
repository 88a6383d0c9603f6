package manifest

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/escher-sched/escher/types"
)

// Explanation says what a field of a document is, or a document.
type Explanation struct {
	// Path leads to it, from the kind of the document: job.gang.onLoss.
	Path string `json:"path"`
	// Type is the type of its value, in words.
	Type     string `json:"type"`
	Desc     string `json:"desc"`
	Required bool   `json:"required,omitempty"`
	// Default is what counts if it is left out, in words; empty if Desc says all.
	Default string   `json:"default,omitempty"`
	Choices []string `json:"choices,omitempty"`
	// Examples are some values.
	Examples []any `json:"examples,omitempty"`
	// Fields are those of the value, or of each value of a list or map, without their Fields.
	Fields []Explanation `json:"fields,omitempty"`
}

// explained is a field with the type of its value. A text that means the use of a declared policy
// has no type.
type explained struct {
	Explanation
	t reflect.Type
	// long reports whether requests may have a long form.
	long bool
}

// Explain explains a path, such as job or task.restart.when. NotFound: the error suggests other
// paths.
func Explain(path string, known Policies) (Explanation, error) {
	words := strings.Split(path, ".")
	at, all := explained{}, kinds()
	for i, word := range words {
		word, _, _ = strings.Cut(word, "[")
		next := slices.IndexFunc(all, func(e explained) bool { return strings.EqualFold(e.name(), word) })
		if next < 0 {
			return Explanation{}, at.unknown(word, strings.Join(words[:i+1], "."), all, known)
		}
		at = all[next]
		all = at.children(known)
	}
	for _, child := range all {
		at.Fields = append(at.Fields, child.Explanation)
	}
	return at.Explanation, nil
}

// unknown is the error about a word that is none of all fields of e. It suggests the field with the
// most similar name, else others with that name: fields of fields first.
func (e *explained) unknown(word, path string, all []explained, known Policies) error {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].name()
	}
	switch {
	case len(all) == 0:
		return types.Errorf(types.NotFound, "%s has no fields: leave %q out", e.Path, word)
	case near(word, names) == "":
		elsewhere := named(word, all, known)
		if len(elsewhere) == 0 {
			elsewhere = named(word, kinds(), known)
		}
		if len(elsewhere) > 0 {
			return types.Errorf(types.NotFound, "%q is unknown: did you mean %s?", path, strings.Join(elsewhere, " or "))
		}
	}
	return types.Errorf(types.NotFound, "%q is unknown: %s", path, oneOf(word, names))
}

const (
	// nameDepth is the number of levels on which fields with a name are searched.
	nameDepth = 3
	// maxElsewhere is the number of fields that an error suggests.
	maxElsewhere = 3
)

// named lists paths of fields with a name below others, the nearest first.
func named(word string, below []explained, known Policies) (paths []string) {
	for range nameDepth {
		var next []explained
		for i := range below {
			for _, child := range below[i].children(known) {
				if next = append(next, child); strings.EqualFold(child.name(), word) {
					paths = append(paths, child.Path)
				}
			}
		}
		if len(paths) > 0 {
			return paths[:min(len(paths), maxElsewhere)]
		}
		below = next
	}
	return nil
}

// ExplainPaths lists the paths that complete a word up to the next dot. Those with fields are listed
// with a dot, too.
func ExplainPaths(word string, known Policies) []string {
	all := kinds()
	if i := strings.LastIndex(word, "."); i >= 0 {
		parent, err := Explain(word[:i], known)
		if err != nil {
			return nil
		}
		var out []string
		for _, f := range parent.Fields {
			if out = append(out, f.Path); f.hasFields(known) {
				out = append(out, f.Path+".")
			}
		}
		return out
	}
	var out []string
	for _, k := range all {
		out = append(out, k.Path, k.Path+".")
	}
	return out
}

func (e *Explanation) hasFields(known Policies) bool {
	full, err := Explain(e.Path, known)
	return err == nil && len(full.Fields) > 0
}

// document is the type of a document, in words.
const document = "document"

// name returns the last word of the path.
func (e *explained) name() string { return e.Path[strings.LastIndex(e.Path, ".")+1:] }

// kinds are the documents.
func kinds() []explained {
	var out []explained
	for _, kind := range Kinds() {
		doc := Document{Kind: kind}
		t := reflect.TypeOf(doc.target()).Elem()
		out = append(out, explained{Explanation{Path: strings.ToLower(string(kind)), Type: document, Desc: kind.Desc()}, t, false})
	}
	return out
}

// Desc describes a kind in a few words.
func (k Kind) Desc() string {
	switch k {
	case KindTask:
		return "one program to run, in a container"
	case KindJob:
		return "several tasks that belong together: copies of a template, or a list"
	case KindResource:
		return "an ephemeral resource"
	case KindReservation:
		return "amounts of resources that are locked for tasks"
	case KindPolicy:
		return "a policy that jobs share, such as a queue"
	case KindNamespace:
		return "an administrator's settings for a namespace"
	case KindRight:
		return "a role, or parts of one, of subjects in namespaces"
	}
	return ""
}

// element returns the type of the values in a type: of a pointer, list or map.
func element(t reflect.Type) reflect.Type {
	for t != nil && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map) {
		t = t.Elem()
	}
	return t
}

// children returns the fields of a value.
func (e *explained) children(known Policies) []explained {
	t := element(e.t)
	switch {
	case e.t == reflect.TypeFor[types.Requests]():
		return e.resources()
	case t == nil || t.Kind() != reflect.Struct:
		return nil
	case t == reflect.TypeFor[Policy]():
		return append(e.fields(t), e.policies(known, known.names(e.Path == "policy.policy"))...)
	}
	var out []explained
	if e.Type == document {
		out = e.fields(reflect.TypeFor[header]())
	}
	out = append(out, e.fields(t)...)
	for _, key := range known.keys(t) {
		if kind := known[key]; kind.fits(t == reflect.TypeFor[SharedPolicy]()) {
			out = append(out, e.policies(known, []string{key})...)
			continue
		}
		text := explained{Explanation: Explanation{Path: e.Path + "." + key, Type: "text"}}
		for _, form := range known.uses()[key] {
			text.Desc += form.Desc
		}
		out = append(out, text)
	}
	return out
}

// resources returns the physical resources of requests, as fields.
func (e *explained) resources() []explained {
	resource := func(name, of, desc string, examples ...any) explained {
		return explained{Explanation: Explanation{Path: e.Path + "." + name, Type: of, Desc: desc, Examples: examples}}
	}
	gpu := resource("gpu", "amount", "GPUs", "1", "500m")
	if e.long {
		gpu.Type, gpu.t = "amount, or object", reflect.TypeFor[DeviceAmount]()
		gpu.Desc += "; an object restricts which: so does that of any resource made of devices"
	}
	return []explained{
		resource("cpu", "amount", "processor cores", "1", "500m"),
		resource("memory", "size", "memory, which is the limit of the task, too", "512Mi", "4Gi"),
		resource("disk", "size", "space on the disk of the node", "512Mi", "4Gi"),
		gpu,
	}
}

// policies returns policies by their names, as fields.
func (e *explained) policies(known Policies, names []string) (out []explained) {
	for _, name := range names {
		kind := known[name]
		policy := explained{t: reflect.TypeOf(kind.New()).Elem()}
		policy.Explanation = Explanation{Path: e.Path + "." + name, Type: "policy", Desc: kind.Desc}
		out = append(out, policy)
	}
	return out
}

// fields returns the fields of a struct, with those of a group behind it.
func (e *explained) fields(t reflect.Type) (out []explained) {
	long := reflect.PointerTo(t).Implements(reflect.TypeFor[restricted]())
	for _, f := range fields(t) {
		of := t.Field(f.index).Type
		x := explained{f.explain(e.Path, of), of, long}
		if f.group || t == reflect.TypeFor[SharedPolicy]() && of == reflect.TypeFor[Policy]() {
			x.Required = false // its fields, or a policy by its own name, are given as well
		}
		if out = append(out, x); f.group {
			out = append(out, e.fields(of)...)
		}
	}
	return out
}

// explain explains a field of an object at a path.
func (f *field) explain(path string, t reflect.Type) Explanation {
	x := Explanation{Path: path + "." + f.name, Type: inWords(t), Desc: f.desc, Required: f.required, Choices: choices(t)}
	if m := leftOut().FindStringSubmatchIndex(f.desc); m != nil {
		x.Desc, x.Default = f.desc[:m[0]], f.desc[m[2]:m[3]]
	}
	g := &generator{defs: make(schema), names: make(map[reflect.Type]string)}
	add := func(s schema) {
		switch some := s["examples"].(type) {
		case []string:
			for _, one := range some {
				x.Examples = append(x.Examples, one)
			}
		case []any:
			x.Examples = append(x.Examples, some...)
		}
	}
	if short, ok := reflect.New(element(t)).Interface().(shorthand); ok {
		add(short.shorter())
	} else if element(t).Kind() != reflect.Struct {
		add(g.value(element(t)))
	}
	return x
}

// leftOut matches the end of a description that says what counts if the field is left out.
func leftOut() *regexp.Regexp { return regexp.MustCompile(`; ([^;]*) if (?:it|spec) is left out$`) }

// inWords returns the words for a type.
func inWords(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[types.Duration](), reflect.TypeFor[Wait]():
		return "duration"
	case reflect.TypeFor[types.Amount](), reflect.TypeFor[Quota]():
		return "amount"
	case reflect.TypeFor[Size]():
		return "size"
	case reflect.TypeFor[Deadline]():
		return "time, or duration"
	case reflect.TypeFor[types.Requests]():
		return "map of resources to amounts"
	case reflect.TypeFor[PortRef]():
		return "name, or number"
	case reflect.TypeFor[Env]():
		return "map of names to texts, or list of texts"
	case reflect.TypeFor[Models]():
		return "text, or list of texts"
	case reflect.TypeFor[Port]():
		return "name, number, or object"
	case reflect.TypeFor[Warn](), reflect.TypeFor[Workdir]():
		return "text, or object"
	case reflect.TypeFor[Limits]():
		return "number, or text"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return inWords(t.Elem())
	case reflect.Slice:
		return "list of " + plural(inWords(t.Elem()))
	case reflect.Map:
		return "map of names to " + plural(inWords(t.Elem()))
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "whole number"
	case reflect.Float64:
		return "number"
	}
	return "object"
}

// plural returns the words for several values of a type: the last word of each alternative changes.
func plural(words string) string {
	if words == "true or false" {
		return words
	}
	return strings.ReplaceAll(words, ",", "s,") + "s"
}
