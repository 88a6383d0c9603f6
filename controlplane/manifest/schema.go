package manifest

import (
	"encoding/json"
	"reflect"

	"github.com/escher-sched/escher/types"
)

// SchemaID names the JSON Schema.
const SchemaID = "https://escher.dev/schemas/v1.json"

// schema is a JSON Schema, or a part of one.
type schema = map[string]any

// Schema returns the JSON Schema of a document, indented. It is made of the types that
// documents are read into.
func Schema() ([]byte, error) {
	g := &generator{defs: make(schema)}
	var kinds []any
	for _, k := range Kinds() {
		doc := Document{Kind: k}
		kinds = append(kinds, g.document(k, reflect.TypeOf(doc.target()).Elem()))
	}
	text, err := json.MarshalIndent(schema{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"$id":     SchemaID,
		"title":   "What is submitted to Escher",
		"oneOf":   kinds,
		"$defs":   g.defs,
	}, "", "  ")
	if err != nil {
		return nil, types.Errorf(types.Internal, "make the JSON schema: %w", err)
	}
	return append(text, '\n'), nil
}

// generator makes the schema of types, each once.
type generator struct{ defs schema }

// document is a kind: its fields and the header.
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
	for _, f := range fields(t) {
		if f.required {
			required = append(required, f.name)
		}
		value := g.value(t.Field(f.index).Type)
		value["description"] = f.desc
		properties[f.name] = value
	}
	s := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// value is the schema of what the decoder reads into a type.
func (g *generator) value(t reflect.Type) schema {
	switch t {
	case reflect.TypeFor[Duration]():
		return schema{"type": "string", "pattern": `^-?([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$|^0$`, "examples": []string{"30s", "1h30m"}}
	case reflect.TypeFor[DeviceMemory]():
		return schema{"type": "string", "examples": []string{"40Gi"}}
	case reflect.TypeFor[Amount]():
		return amount()
	case reflect.TypeFor[PortRef]():
		return schema{"type": []string{"string", "integer"}, "examples": []any{"http", 8080}}
	case reflect.TypeFor[types.Requests]():
		return schema{"type": "object", "additionalProperties": amount()}
	}
	if allowed := choices(t); len(allowed) > 0 {
		return schema{"enum": allowed}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.value(t.Elem())
	case reflect.Struct:
		if _, made := g.defs[t.Name()]; !made {
			g.defs[t.Name()] = schema{} // it may contain itself
			g.defs[t.Name()] = g.object(t)
		}
		return schema{"$ref": "#/$defs/" + t.Name()}
	case reflect.Slice:
		return schema{"type": "array", "items": g.value(t.Elem())}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": g.value(t.Elem())}
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	}
	return schema{"type": "integer"}
}

func amount() schema {
	return schema{"type": []string{"string", "number"}, "examples": []string{"1", "500m", "4Gi", "inf"}}
}
