package cmdutil

import (
	"encoding/json"
	"strings"
)

// Form is the form that the JSON Schema of the parameters of a policy, or of one of them, gives
// what is written.
type Form struct {
	Type        any             `json:"type"`
	Description string          `json:"description"`
	Items       *Form           `json:"items"`
	Named       json.RawMessage `json:"additionalProperties"` // of what any name has, or whether there may be any
	Properties  map[string]Form `json:"properties"`
	Ref         string          `json:"$ref"`
	Defs        map[string]Form `json:"$defs"`
}

// named is the form of what any name has, nil if there are none but those that are known.
func (f Form) named() *Form {
	var of *Form
	if json.Unmarshal(f.Named, &of) != nil {
		return nil
	}
	return of
}

// Of is the form of what a list, or an object of any names, has.
func (f Form) Of() *Form {
	if f.Items != nil {
		return f.Items
	}
	return f.named()
}

// Written is how a parameter is written: its name, and that it is a list or has names.
func (f Form) Written(name string) string {
	if f.Of() == nil {
		return name
	}
	return name + ": " + f.outline()
}

// outline is the form in short.
func (f Form) outline() string {
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

// Fields are the fields of the objects that a parameter has, of which defs has the forms.
func (f Form) Fields(defs map[string]Form) map[string]Form {
	if of := f.Of(); of != nil {
		return defs[strings.TrimPrefix(of.Ref, "#/$defs/")].Properties
	}
	return nil
}
