package cli

import (
	"encoding/json"
	"strings"
)

// form is the form that the JSON Schema of the parameters of a policy, or of one of them, gives
// what is written.
type form struct {
	Type        any             `json:"type"`
	Description string          `json:"description"`
	Items       *form           `json:"items"`
	Named       json.RawMessage `json:"additionalProperties"` // of what any name has, or whether there may be any
	Properties  map[string]form `json:"properties"`
	Ref         string          `json:"$ref"`
	Defs        map[string]form `json:"$defs"`
}

// named is the form of what any name has, nil if there are none but those that are known.
func (f form) named() *form {
	var of *form
	if json.Unmarshal(f.Named, &of) != nil {
		return nil
	}
	return of
}

// of is the form of what a list, or an object of any names, has.
func (f form) of() *form {
	if f.Items != nil {
		return f.Items
	}
	return f.named()
}

// written is how a parameter is written: its name, and that it is a list or has names.
func (f form) written(name string) string {
	if f.of() == nil {
		return name
	}
	return name + ": " + f.outline()
}

// outline is the form in short.
func (f form) outline() string {
	switch {
	case f.Items != nil:
		return "[" + f.Items.outline() + "]"
	case f.named() != nil:
		return "{NAME: " + f.named().outline() + "}"
	case f.Ref != "":
		return "{…}"
	}
	return "…"
}

// fields are the fields of the objects that a parameter has, of which defs has the forms.
func (f form) fields(defs map[string]form) map[string]form {
	if of := f.of(); of != nil {
		return defs[strings.TrimPrefix(of.Ref, "#/$defs/")].Properties
	}
	return nil
}
