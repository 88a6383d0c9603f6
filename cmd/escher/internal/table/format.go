package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	"github.com/escher-sched/escher/types"
)

// Format is an output format.
type Format string

// The formats. JSONPath is followed by a template.
const (
	Table    Format = "table"
	Wide     Format = "wide"
	JSON     Format = "json"
	YAML     Format = "yaml"
	Name     Format = "name"
	JSONPath Format = "jsonpath="
)

// Formats lists the formats.
func Formats() []Format { return []Format{Table, Wide, JSON, YAML, Name, JSONPath} }

// String returns the format; with Set and Type it makes a Format a flag.
func (f *Format) String() string { return string(*f) }

// Set checks and sets the format.
func (f *Format) Set(text string) error {
	if template, ok := strings.CutPrefix(text, string(JSONPath)); ok {
		if _, err := parseTemplate(template); err != nil {
			return err
		}
		*f = Format(text)
		return nil
	}
	for _, known := range Formats() {
		if text == string(known) {
			*f = known
			return nil
		}
	}
	return types.Errorf(types.Invalid, "output: %q is no format: use table, wide, json, yaml, name or jsonpath={.items[*].id}", text)
}

// Type names the kind of value in help texts.
func (f *Format) Type() string { return "format" }

// Encoded reports whether Encode prints a value, rather than a table.
func (f Format) Encoded() bool { return f == JSON || f == YAML || f.template() != "" }

// template returns the template of a jsonpath format, else "".
func (f Format) template() string {
	template, ok := strings.CutPrefix(string(f), string(JSONPath))
	if !ok {
		return ""
	}
	return template
}

// parseTemplate reads a template as kubectl takes it; one expression may be without its braces.
func parseTemplate(text string) (*jsonpath.JSONPath, error) {
	if !strings.Contains(text, "{") {
		text = "{." + strings.TrimPrefix(text, ".") + "}"
	}
	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(text); err != nil || text == "{.}" {
		return nil, types.Errorf(types.Invalid, "output: jsonpath %q cannot be read: write it like jsonpath={.items[*].id}", text)
	}
	return path, nil
}

// Encode writes any value as JSON, as YAML, or by a template.
func Encode(w io.Writer, f Format, v any) error {
	if template := f.template(); template != "" {
		return pick(w, template, v)
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return types.Errorf(types.Internal, "print %T: %w", v, err)
	}
	// JSON escapes do not change the value.
	text = []byte(Plain(string(text)))
	if f == YAML {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return types.Errorf(types.Internal, "print %T: %w", v, err)
		}
	}
	_, err = fmt.Fprintln(w, Plain(strings.TrimRight(string(text), "\n")))
	return err
}

// pick applies a template to the JSON of a value, and ends the last line.
func pick(w io.Writer, template string, v any) error {
	path, err := parseTemplate(template)
	if err != nil {
		return err
	}
	plain, err := plainly(v)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := path.Execute(&out, plain); err != nil {
		return types.Errorf(types.Invalid, "output: jsonpath %s: %w: -o json shows what there is", template, err)
	}
	if text := out.Bytes(); len(text) > 0 && text[len(text)-1] != '\n' {
		out.WriteByte('\n')
	}
	_, err = io.WriteString(w, Plain(out.String()))
	return err
}

// plainly converts a value to its JSON form: maps, lists, texts, and whole numbers that stay whole.
func plainly(v any) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, types.Errorf(types.Internal, "print %T: %w", v, err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var plain any
	if err := dec.Decode(&plain); err != nil {
		return nil, types.Errorf(types.Internal, "print %T: %w", v, err)
	}
	return numbers(plain), nil
}

// numbers makes whole numbers within a value integers.
func numbers(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k := range x {
			x[k] = numbers(x[k])
		}
	case []any:
		for i := range x {
			x[i] = numbers(x[i])
		}
	case json.Number:
		if i, err := x.Int64(); err == nil {
			return i
		}
		f, _ := x.Float64() // JSON has only numbers
		return f
	}
	return v
}
