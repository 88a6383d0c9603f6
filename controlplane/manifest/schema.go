package manifest

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/types"
)

// SchemaID names the JSON Schema.
const SchemaID = "https://escher.dev/schemas/v1.json"

// schema is a JSON Schema, or a part of one.
type schema = map[string]any

// Schema returns the indented JSON Schema of a document, made of the types of documents. known are
// the known policies.
func Schema(known Policies) ([]byte, error) {
	g := &generator{defs: make(schema), names: make(map[reflect.Type]string), known: known}
	var kinds []any
	for _, k := range Kinds() {
		doc := Document{Kind: k}
		t := reflect.TypeOf(doc.target()).Elem()
		g.shared = k == KindPolicy
		kinds = append(kinds, g.document(k, t))
	}
	text, err := json.MarshalIndent(schema{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"$id":     SchemaID,
		"title":   "Documents of Escher",
		"oneOf":   kinds,
		"$defs":   g.defs,
	}, "", "  ")
	if err != nil {
		return nil, types.Errorf(types.Internal, "make the JSON schema: %w", err)
	}
	return append(text, '\n'), nil
}

// generator makes the schema of types, each once.
type generator struct {
	defs  schema
	names map[reflect.Type]string
	known Policies
	// shared reports whether the document declares a shared policy.
	shared bool
}

// document returns the schema of a kind: its fields and the header.
func (g *generator) document(kind Kind, t reflect.Type) schema {
	s := g.object(t)
	properties := s["properties"].(schema)
	for _, f := range fields(reflect.TypeFor[header]()) {
		properties[f.name] = schema{"const": APIVersion, "description": f.desc}
	}
	properties["kind"].(schema)["const"] = kind
	required, _ := s["required"].([]string)
	s["required"] = append([]string{"apiVersion", "kind"}, required...)
	s["title"] = kind
	return s
}

func (g *generator) object(t reflect.Type) schema {
	properties := make(schema)
	var required []string
	all := together(t)
	for _, f := range fields(t) {
		if f.required && !f.group {
			required = append(required, f.name)
		}
		value := g.value(t.Field(f.index).Type)
		if f.desc != "" {
			value["description"] = f.desc
		}
		f.bound(value, t.Field(f.index).Type)
		if reflect.PointerTo(t).Implements(reflect.TypeFor[restricted]()) && f.name == "requests" {
			g.allowLongForms(value)
		}
		if f.group {
			all = append(all, g.beside(f.name, t.Field(f.index).Type, properties)...)
		}
		properties[f.name] = value
	}
	s := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if keys := g.policyKeys(t, properties); t == reflect.TypeFor[SharedPolicy]() {
		required = slices.DeleteFunc(required, func(name string) bool { return name == "policy" })
		all = append(all, schema{"oneOf": append(keys, schema{"required": []string{"policy"}})})
	}
	if len(all) > 0 {
		s["allOf"] = all
	}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// beside adds the fields of a group of a type to those beside it, and returns the rules between
// both: each field is in one place, and what is required in one of them.
func (g *generator) beside(group string, t reflect.Type, properties schema) (all []any) {
	def := g.defs[g.def(t)].(schema)
	delete(def, "required")
	inGroup := func(s schema) schema { return schema{"required": []string{group}, "properties": schema{group: s}} }
	twice := make(schema)
	for _, f := range fields(t) {
		properties[f.name] = def["properties"].(schema)[f.name]
		twice[f.name] = schema{"properties": schema{group: schema{"properties": schema{f.name: false}}}}
		set := says(t, f.name)
		for _, other := range f.without {
			all = append(all, schema{"not": schema{"allOf": []any{set, inGroup(says(t, other))}}},
				schema{"not": schema{"allOf": []any{says(t, other), inGroup(set)}}})
		}
		if f.required {
			here := schema{"required": []string{f.name}}
			all = append(all, schema{"anyOf": []any{here, inGroup(here)}})
		}
	}
	return append(append(all, together(t)...), schema{"dependentSchemas": twice})
}

// value returns the schema of the values that the decoder accepts for a type.
func (g *generator) value(t reflect.Type) schema {
	switch t {
	case reflect.TypeFor[types.Duration](), reflect.TypeFor[Wait]():
		return schema{"type": "string", "pattern": patternOfTime, "examples": []string{"30s", "1h30m"}}
	case reflect.TypeFor[Size]():
		return schema{"type": "string", "pattern": patternOfBytes, "not": schema{"pattern": patternOfNone}, "examples": []string{"40Gi"}}
	case reflect.TypeFor[Deadline]():
		return schema{"type": "string", "pattern": patternOfTime + `|^[0-9]{4}-[0-9]{2}-[0-9]{2}T|^$`, "not": schema{"pattern": patternOfZero}}
	case reflect.TypeFor[types.Amount]():
		return amount()
	case reflect.TypeFor[Limits]():
		return schema{"type": []string{"string", "integer"}, "minimum": types.Unlimited, "maximum": json.Number(strconv.Itoa(types.MaxBudget)), "pattern": patternOfLimits, "examples": []any{-1, "4096:65536"}}
	case reflect.TypeFor[Quota]():
		return schema{"type": []string{"string", "number"}, "examples": []any{16, "64Gi", "admin:cpus"}}
	case reflect.TypeFor[PortRef]():
		return schema{"type": []string{"string", "integer"}, "examples": []any{"http", 8080}}
	case reflect.TypeFor[types.Requests](), reflect.TypeFor[map[string]types.Amount]():
		return requests()
	case reflect.TypeFor[Policy]():
		return g.policy()
	}
	if allowed := choices(t); len(allowed) > 0 {
		return schema{"enum": allowed}
	}
	if short, ok := reflect.New(t).Interface().(shorthand); ok {
		return schema{"anyOf": []any{short.shorter(), g.usual(t)}}
	}
	return g.usual(t)
}

// usual returns the schema of the usual form of a type.
func (g *generator) usual(t reflect.Type) schema {
	switch t {
	case reflect.TypeFor[Env]():
		return schema{"type": "array", "items": schema{"type": "string", "pattern": textOf("setting").pattern}}
	case reflect.TypeFor[Models]():
		return schema{"type": "array", "items": schema{"type": "string", "pattern": patternOfWord}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.value(t.Elem())
	case reflect.Struct:
		return schema{"$ref": "#/$defs/" + g.def(t)}
	case reflect.Slice:
		return schema{"type": "array", "items": g.value(t.Elem())}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": g.value(t.Elem())}
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Float64:
		return schema{"type": "number"}
	}
	return schema{"type": "integer", "minimum": math.MinInt, "maximum": math.MaxInt}
}

// def makes the definition of a struct, once, and returns its name: that of the type, with its
// package if the name is taken.
func (g *generator) def(t reflect.Type) string {
	if name, made := g.names[t]; made {
		return name
	}
	name := t.Name()
	if _, taken := g.defs[name]; taken {
		name = strings.ReplaceAll(t.String(), ".", "-")
	}
	g.names[t] = name
	g.defs[name] = schema{} // it may contain itself
	g.defs[name] = g.object(t)
	return name
}

// policyKeys adds the policies that are fields of a type, and returns a schema that requires each.
func (g *generator) policyKeys(t reflect.Type, properties schema) (each []any) {
	uses := g.known.uses()
	for _, key := range g.known.keys(t) {
		kind := g.known[key]
		each = append(each, schema{"required": []string{key}})
		if kind.fits(g.shared) {
			properties[key] = schema{"$ref": "#/$defs/" + g.parameters(key), "description": "policy: " + kind.Desc}
			continue
		}
		var patterns []any
		desc := ""
		for _, form := range uses[key] {
			patterns = append(patterns, schema{"pattern": form.Pattern})
			desc += form.Desc
		}
		properties[key] = schema{"type": "string", "anyOf": patterns, "description": desc}
	}
	return each
}

// parameters makes the definition of the parameters of a policy, once, and returns its name.
func (g *generator) parameters(name string) string {
	def := "policy-" + name
	if g.defs[def] == nil {
		g.defs[def] = schema{} // it may contain itself
		g.defs[def] = g.object(reflect.TypeOf(g.known[name].New()).Elem())
	}
	return def
}

// policy returns the schema of a policy: a known one, or another party's.
func (g *generator) policy() schema {
	var all []any
	for _, name := range g.known.names(g.shared) {
		kind, def := g.known[name], g.parameters(name)
		required := []string{"name"}
		if g.defs[def].(schema)["required"] != nil {
			required = append(required, "with")
		}
		with := schema{"$ref": "#/$defs/" + def, "description": "its parameters"}
		one := schema{
			"type": "object", "additionalProperties": false, "required": required,
			"properties": schema{"name": schema{"const": name}, "with": with}, "title": name,
		}
		if kind.Desc != "" {
			one["description"] = kind.Desc
		}
		all = append(all, one)
	}
	others := schema{
		"type": "object", "additionalProperties": false, "required": []string{"name"},
		"properties": schema{
			"name": schema{"type": "string", "pattern": textOf("foreign").pattern, "description": "a policy of another party, with a domain: acme.com/even"},
			"with": schema{"type": "object", "description": "its parameters"},
		},
	}
	return schema{"oneOf": append(all, others)}
}

// ParameterSchema returns the JSON Schema of the parameters of a policy.
func ParameterSchema(kind PolicyKind) ([]byte, error) {
	g := &generator{defs: make(schema), names: make(map[reflect.Type]string)}
	s := g.object(reflect.TypeOf(kind.New()).Elem())
	if len(g.defs) > 0 {
		s["$defs"] = g.defs
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, types.Errorf(types.Internal, "make the JSON schema: %w", err)
	}
	return text, nil
}
