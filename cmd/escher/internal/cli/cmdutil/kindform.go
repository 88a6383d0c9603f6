package cmdutil

import (
	"encoding/json"
	"strings"
)

// Form is the part of a JSON Schema that describes the parameters of a policy, or one of them.
type Form struct {
	Type        any             `json:"type"`
	Description string          `json:"description"`
	Items       *Form           `json:"items"`
	Named       json.RawMessage `json:"additionalProperties"` // the form of values of any name, or whether any name is allowed
	Properties  map[string]Form `json:"properties"`
	Ref         string          `json:"$ref"`
	Defs        map[string]Form `json:"$defs"`
}

// named is the form of values of any name, nil if only the known names are allowed.
func (f Form) named() *Form {
	var of *Form
	if json.Unmarshal(f.Named, &of) != nil {
		return nil
	}
	return of
}

// Of is the form of the elements of a list, or of the values of an object of any names.
func (f Form) Of() *Form {
	if f.Items != nil {
		return f.Items
	}
	return f.named()
}

// Written is how to write a parameter: its name, with its outline if it is a list or an object.
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

// Fields returns the fields of the objects in a parameter; defs holds the forms it refers to.
func (f Form) Fields(defs map[string]Form) map[string]Form {
	if of := f.Of(); of != nil {
		return defs[strings.TrimPrefix(of.Ref, "#/$defs/")].Properties
	}
	return nil
}
