package manifest

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/escher-sched/escher/types"
)

// Patterns of times and amounts. Only the decoder refuses numbers with too many digits.
const (
	patternOfTime      = `^\+?((([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+|0)$`
	patternOfZero      = `^\+?(0+\.?0*|\.0+)[a-zµμ]*$`
	patternOfNumber    = `^\s*\+?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[eE][+-]?[0-9]+)?\s*$`
	patternOfBytes     = `^\s*\+?([0-9]+\.?[0-9]*|\.[0-9]+)(([numkMGTPE]|[KMGTPE]i)B?|([eE][+-]?[0-9]+)?B)\s*$`
	patternOfNone      = `^\s*[+-]?(0+\.?0*|\.0+)([a-zA-Z]*|[eE][+-]?[0-9]+)\s*$`
	patternOfLimits    = `^(\+?[0-9]+|-1|-0+|unlimited)(:(\+?[0-9]+|-1|-0+|unlimited))?$`
	patternOfWarning   = `^[A-Za-z0-9+-]+@\+?((([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+|[0-9]+)$`
	patternOfNoWarning = `@\+?(0+\.?0*|\.0+)[a-zµμ]*$`
	patternOfWord      = `[0-9A-Za-z]|[^\x00-\x7F]`
	patternOfBound     = `^\s*[iI][nN][fF]\s*$`
)

// bound adds the rules of the tags to the schema of a field.
func (f *field) bound(value schema, t reflect.Type) {
	if f.zero != "" && isTime(t) {
		value["not"] = schema{"pattern": patternOfZero}
	}
	texts := value
	switch value["type"] {
	case "array":
		if texts = value["items"].(schema); f.some {
			value["minItems"] = 1
		}
	case "object":
		if values, ok := value["additionalProperties"].(schema); ok {
			texts = values
		}
		if f.some {
			value["minProperties"] = 1
		}
	case "string":
		if f.some {
			value["minLength"] = 1
		}
	}
	textOf(f.is).admit(texts)
	if f.keys != "" {
		value["propertyNames"] = make(schema)
		textOf(f.keys).admit(value["propertyNames"].(schema))
	}
	f.numbers(value)
}

// numbers adds the bounds of a number.
func (f *field) numbers(value schema) {
	if values, ok := value["additionalProperties"].(schema); ok {
		value = values
	}
	switch least := f.min; {
	case f.zero != "" && value["type"] == "number":
		value["exclusiveMinimum"] = 0
	case f.zero != "" && value["type"] == "integer" && least == "":
		value["minimum"] = 1
	case least != "":
		value["minimum"] = json.Number(least)
	}
	if f.max != "" {
		value["maximum"] = json.Number(f.max)
	}
}

// admit adds the rules for texts of a kind.
func (k texts) admit(value schema) {
	if k.pattern != "" {
		value["pattern"] = k.pattern
	}
	if len(k.except) > 0 {
		value["not"] = schema{"enum": k.except}
	}
}

// together lists the rules between fields of a struct.
func together(t reflect.Type) (all []any) {
	for _, f := range fields(t) {
		if len(f.or) > 0 {
			either := []any{says(t, f.name)}
			for _, other := range f.or {
				either = append(either, says(t, other))
			}
			all = append(all, schema{"anyOf": either})
		}
		for _, other := range f.needs {
			all = append(all, schema{"if": says(t, f.name), "then": says(t, other)})
		}
		for _, other := range f.without {
			all = append(all, schema{"not": schema{"allOf": []any{says(t, f.name), says(t, other)}}})
		}
	}
	return all
}

// says returns the schema for a field of a struct that is set: name, or name=value|value.
func says(t reflect.Type, which string) schema {
	name, values, given := strings.Cut(which, "=")
	for _, f := range fields(t) {
		if f.name != name {
			continue
		}
		value := something(t.Field(f.index).Type)
		if given {
			value = schema{"enum": strings.Split(values, "|")}
		}
		return schema{"required": []string{name}, "properties": schema{name: value}}
	}
	panic("manifest: " + t.String() + " has no field " + name + ", which a tag of it names")
}

// something returns the schema for values of a type that are set.
func something(t reflect.Type) schema {
	switch t.Kind() {
	case reflect.Slice:
		return schema{"minItems": 1}
	case reflect.Map:
		return schema{"minProperties": 1}
	case reflect.String:
		return schema{"minLength": 1}
	case reflect.Bool:
		return schema{"const": true}
	case reflect.Int, reflect.Float64:
		return schema{"not": schema{"const": 0}}
	}
	return schema{}
}

// amount returns the schema of an amount, or of several.
func amount() schema {
	return schema{
		"type": []string{"string", "number"}, "minimum": 0, "examples": []string{"1", "500m", "4Gi", "inf"},
		"anyOf": []any{
			schema{"type": "number"}, schema{"pattern": patternOfNumber}, schema{"pattern": patternOfBytes},
			schema{"pattern": patternOfNone}, schema{"pattern": patternOfBound},
		},
	}
}

// requests returns the schema of requested amounts by resource: bounded and above zero.
func requests() schema {
	names, none := make(schema), schema{"type": "string", "pattern": patternOfNone}
	textOf("request").admit(names)
	return schema{
		"type": "object", "propertyNames": names, "maxProperties": types.MaxRequests,
		"patternProperties": schema{"^(memory|disk)(@|$)": schema{
			"type": "string", "pattern": patternOfBytes, "not": none, "examples": []string{"512Mi", "4Gi"},
		}},
		"additionalProperties": schema{
			"type": []string{"string", "number"}, "exclusiveMinimum": 0, "maximum": json.Number(types.MaxQuantity.Format(types.CPU)),
			"pattern": patternOfNumber, "not": none, "examples": []string{"1", "500m"},
		},
	}
}

// allowLongForms allows requests of devices in long form, too.
func (g *generator) allowLongForms(requests schema) {
	def := g.def(reflect.TypeFor[DeviceAmount]())
	long, amount := schema{"$ref": "#/$defs/" + def}, requests["additionalProperties"].(schema)
	count := g.defs[def].(schema)["properties"].(schema)
	count["count"] = schema{"allOf": []any{amount}, "description": count["count"].(schema)["description"]}
	requests["patternProperties"].(schema)[textOf("device").pattern] = schema{"anyOf": []any{amount, long}}
}
