package manifest

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/escher-sched/escher/types"
)

// maxNodes bounds the values of one document, with aliases expanded: a few lines with aliases can
// stand for more than any memory holds.
const maxNodes = 500_000

// decoder decodes a document into the types of this package, strictly. It knows the line of
// everything, and continues after a problem, so that it reports all of them.
type decoder struct {
	problems []problem
	// values is the number of problems that concern values only, after all fields were read.
	values int
	// nodes is the number of values visited, depth the number of values around the present one.
	nodes, depth int
	// known are the known policies; shared reports whether the document declares a shared policy.
	known  Policies
	shared bool
	// notices are about former names.
	notices []Notice
	// spellings are the paths of fields as written, by their paths in the types: see spelled.
	spellings map[string]string
}

// maxDepth bounds the nesting of values: an alias may occur in its own target.
const maxDepth = 100

// problem is a problem of a field.
type problem struct {
	line int
	path string
	text string
}

func (d *decoder) wrong(n *yaml.Node, path, format string, args ...any) {
	d.problems = append(d.problems, problem{n.Line, path, fmt.Sprintf(format, args...)})
}

// wrongValue is wrong for a value that could be read but is not allowed.
func (d *decoder) wrongValue(n *yaml.Node, path, format string, args ...any) {
	d.wrong(n, path, format, args...)
	d.values++
}

// plain checks that a document is a tree of reasonable size without duplicate keys, and expands
// aliases. It reports false if decoding cannot continue.
func (d *decoder) plain(n *yaml.Node, path string) bool {
	d.depth++
	defer func() { d.depth-- }()
	if d.nodes++; d.nodes > maxNodes || d.depth > maxDepth {
		d.wrong(n, "", "the document holds more than %d values, or nests more than %d: split it", maxNodes, maxDepth)
		return false
	}
	if n.Kind == yaml.AliasNode {
		line := n.Line
		*n = *n.Alias
		n.Line = line
	}
	seen := make(map[string]int)
	content := slices.Clone(n.Content)
	for i, child := range content {
		at := path
		switch {
		case n.Kind == yaml.MappingNode && i%2 == 0:
			if child.Kind != yaml.ScalarNode || child.Tag == "!!merge" {
				d.wrong(child, path, "%q is not the name of a field: write a name", child.Value)
				return false
			}
			if line, twice := seen[child.Value]; twice {
				d.wrong(child, below(path, child.Value), "is given twice, first in line %d: drop one", line)
			}
			seen[child.Value] = child.Line
			continue
		case n.Kind == yaml.MappingNode:
			at = below(path, content[i-1].Value)
		case n.Kind == yaml.SequenceNode:
			at = path + "[" + strconv.Itoa(i) + "]"
		}
		// An alias shares its target, which is expanded once.
		own := *child
		content[i] = &own
		if !d.plain(&own, at) {
			return false
		}
	}
	n.Content = content
	return true
}

func below(path, name string) string {
	if path == "" || name == "" {
		return path + name
	}
	return path + "." + name
}

// decode decodes a value.
func (d *decoder) decode(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		d.wrong(n, path, "is empty: give a value, or leave it out")
		return
	}
	if p, ok := v.Addr().Interface().(*Policy); ok {
		d.policy(n, p, path)
		return
	}
	if s, ok := v.Addr().Interface().(shorthand); ok && s.short(d, n, path) {
		return
	}
	if v.Type() == reflect.TypeFor[any]() {
		return // the parameters of a policy, decoded by its kind
	}
	if v.Type() == reflect.TypeFor[types.Requests]() && !d.amounts(n, path) {
		return
	}
	if u, ok := v.Addr().Interface().(json.Unmarshaler); ok {
		switch err := unmarshal(n, u); {
		case err != nil:
			d.wrong(n, path, "%s", err)
		case isTime(v.Type()) && strings.HasPrefix(n.Value, "-"):
			d.wrongValue(n, path, "%s is negative: give a time", n.Value)
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(n, v.Elem(), path)
	case reflect.Struct:
		d.object(n, v, path)
	case reflect.Slice:
		d.list(n, v, path)
	case reflect.Map:
		d.texts(n, v, path)
	case reflect.String:
		d.text(n, v, path)
	case reflect.Bool:
		d.scalar(n, v, path, "!!bool", "true or false")
	case reflect.Float64:
		d.number(n, v, path)
	default:
		d.scalar(n, v, path, "!!int", "a whole number")
	}
}

// number decodes a number, with or without a fraction.
func (d *decoder) number(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" && n.Tag != "!!float" || n.Decode(v.Addr().Interface()) != nil ||
		math.IsInf(v.Float(), 0) || math.IsNaN(v.Float()) {
		d.wrong(n, path, "%s is given: write a number", shown(n))
	}
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.wrong(n, path, "%s is given: write a list, such as [a, b]", shown(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, c := range n.Content {
		d.decode(c, v.Index(i), path+"["+strconv.Itoa(i)+"]")
	}
}

// texts decodes a map of texts.
func (d *decoder) texts(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.wrong(n, path, "%s is given: write names with values, such as {disk: ssd}", shown(n))
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i := 0; i+1 < len(n.Content); i += 2 {
		value := reflect.New(v.Type().Elem()).Elem()
		d.decode(n.Content[i+1], value, below(path, n.Content[i].Value))
		v.SetMapIndex(reflect.ValueOf(n.Content[i].Value), value)
	}
}

// text decodes a text, one of the allowed ones if there are few. A number is refused: 1.10 would
// become 1.1.
func (d *decoder) text(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode {
		d.wrong(n, path, "%s is given: write a text", shown(n))
		return
	}
	if n.Tag != "!!str" && n.Tag != "!!timestamp" {
		d.wrong(n, path, "%s is not a text: write it in quotes, %q", n.Value, n.Value)
		return
	}
	if allowed := choices(v.Type()); len(allowed) > 0 && !slices.Contains(allowed, n.Value) {
		d.wrong(n, path, "%q is unknown: use %s", n.Value, strings.Join(allowed, " or "))
		return
	}
	v.SetString(n.Value)
}

// textValue returns a text to decode into.
func textValue(s *string) reflect.Value { return reflect.ValueOf(s).Elem() }

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path, tag, want string) {
	if n.Kind != yaml.ScalarNode || n.Tag != tag || n.Decode(v.Addr().Interface()) != nil {
		d.wrong(n, path, "%s is given: write %s", shown(n), want)
	}
}

// shown describes the value found.
func shown(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a group of fields"
	case yaml.SequenceNode:
		return "a list"
	}
	return strconv.Quote(n.Value)
}

// choices lists the texts that a type allows; none means any.
func choices(t reflect.Type) []string {
	if few, ok := reflect.Zero(t).Interface().(chooser); ok && t.Kind() == reflect.String {
		return few.Choices()
	}
	switch t {
	case reflect.TypeFor[types.When]():
		return []string{string(types.WhenBound), string(types.WhenRunning), string(types.WhenHealthy), string(types.WhenSucceeded)}
	case reflect.TypeFor[types.OnDisconnect]():
		return []string{types.Fence.String(), types.StopLost.String(), types.Keep.String()}
	case reflect.TypeFor[types.LostBundles]():
		return []string{types.WaitForNode.String(), types.MoveBundles.String()}
	case reflect.TypeFor[types.Then]():
		return []string{string(types.ThenReport), string(types.ThenRestart)}
	case reflect.TypeFor[types.Socket]():
		return []string{types.SocketNamespace.String(), string(types.SocketSelf), string(types.SocketNone)}
	case reflect.TypeFor[types.CPULimit]():
		return []string{string(types.CPUNone)}
	case reflect.TypeFor[types.RestartWhen]():
		return []string{string(types.RestartOnFailure), string(types.RestartAlways)}
	case reflect.TypeFor[types.Topology]():
		return []string{string(types.LinkedDevices), string(types.OneNUMA)}
	case reflect.TypeFor[types.Lifetime]():
		return []string{string(types.OfTask), string(types.OfSession), string(types.OfReservation), string(types.OfJob), string(types.OfPolicy)}
	}
	return nil
}

// unmarshal decodes a value with a form of its own.
func unmarshal(n *yaml.Node, u json.Unmarshaler) error {
	value, err := jsonOf(n)
	if err != nil {
		return err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return u.UnmarshalJSON(text)
}

// jsonOf returns a value as JSON. Numbers keep their digits.
func jsonOf(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.MappingNode:
		out := make(map[string]any)
		for i := 0; i+1 < len(n.Content); i += 2 {
			v, err := jsonOf(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			out[n.Content[i].Value] = v
		}
		return out, nil
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, c := range n.Content {
			v, err := jsonOf(c)
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
		return out, nil
	}
	if (n.Tag == "!!int" || n.Tag == "!!float") && json.Valid([]byte(n.Value)) {
		return json.Number(n.Value), nil
	}
	if n.Tag == "!!str" || n.Tag == "!!timestamp" {
		return n.Value, nil
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return nil, types.Errorf(types.Invalid, "%w: correct it", err)
	}
	if f, ok := v.(float64); ok && (math.IsInf(f, 0) || math.IsNaN(f)) {
		return nil, types.Errorf(types.Invalid, "%s is given: write a finite number", n.Value)
	}
	return v, nil
}
