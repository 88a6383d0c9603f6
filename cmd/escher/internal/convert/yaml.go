package convert

import (
	"bytes"

	"go.yaml.in/yaml/v3"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// object is an object of the result: its fields in order.
type object struct{ node yaml.Node }

func newObject() *object { return &object{yaml.Node{Kind: yaml.MappingNode}} }

// flow returns an object that is written on one line.
func flow() *object {
	return &object{yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}}
}

// document returns an object with the header of a kind.
func document(kind manifest.Kind, name string) *object {
	o := newObject()
	o.set("apiVersion", manifest.APIVersion)
	o.set("kind", string(kind))
	o.set("name", name)
	return o
}

func (o *object) empty() bool { return len(o.node.Content) == 0 }

// set adds a field: a text, number or boolean, an object, or a list or map of these. Lists and maps
// of texts are written on one line.
func (o *object) set(name string, value any) {
	key := new(yaml.Node)
	key.SetString(name)
	o.node.Content = append(o.node.Content, key, nodeOf(value))
}

// comment adds a comment after the last field, which has one line.
func (o *object) comment(text string) {
	o.node.Content[len(o.node.Content)-1].LineComment = text
}

// some is set, unless the value is the zero value of its type.
func some[T comparable](o *object, name string, value T) {
	if value != *new(T) {
		o.set(name, value)
	}
}

// list is set, unless the list is empty.
func list[T any](o *object, name string, values []T) {
	if len(values) > 0 {
		o.set(name, values)
	}
}

func nodeOf(value any) *yaml.Node {
	n := new(yaml.Node)
	switch v := value.(type) {
	case *object:
		return &v.node
	case []*object:
		n.Kind = yaml.SequenceNode
		for _, one := range v {
			n.Content = append(n.Content, &one.node)
		}
	case []any:
		n.Kind, n.Style = yaml.SequenceNode, yaml.FlowStyle
		for _, one := range v {
			n.Content = append(n.Content, nodeOf(one))
		}
	case []string:
		n.Kind, n.Style = yaml.SequenceNode, yaml.FlowStyle
		for _, one := range v {
			n.Content = append(n.Content, nodeOf(one))
		}
	default:
		_ = n.Encode(v) // numbers, booleans and texts can always be encoded
	}
	return n
}

// render writes documents.
func render(docs []*object) ([]byte, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	for _, d := range docs {
		if err := e.Encode(&d.node); err != nil {
			return nil, types.Errorf(types.Internal, "write the file: %w", err)
		}
	}
	if err := e.Close(); err != nil {
		return nil, types.Errorf(types.Internal, "write the file: %w", err)
	}
	text := bytes.TrimRight(out.Bytes(), "\n") // a script at the end may lack its newline
	return append(text, '\n'), nil
}
