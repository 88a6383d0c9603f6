package show

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/schema"
)

// Fields with secrets: the tokens of nodes and servers, the hashes of those of users, and the environment of tasks.
const (
	tokenField = "token"
	hashField  = "hash"
	envField   = "env"
)

// decode decodes a value by the schema. It leaves out tokens, and values of environment variables unless env is
// set.
func decode(messages protoreflect.MessageDescriptors, kv controlplane.KV, env bool) storedValue {
	out := storedValue{Key: kv.Key, Revision: kv.ModRevision, Created: kv.CreateRevision}
	if kv.Lease != 0 {
		out.Lease = strconv.FormatInt(int64(kv.Lease), 16)
	}
	key, ok := controlplane.Parse(kv.Key)
	known := audit.NewMessage(key)
	if !ok || known == nil {
		out.Problem = "Escher does not use this key"
		if !strings.HasPrefix(kv.Key, controlplane.Prefix(controlplane.Tokens)) {
			out.Hex = hex.EncodeToString(kv.Value)
		}
		return out
	}
	out.Kind = reflect.TypeOf(known).Elem().Name()
	fields := messages.ByName(protoreflect.Name(out.Kind)).Fields()
	secret := fields.ByName(tokenField) != nil || fields.ByName(hashField) != nil || fields.ByName(envField) != nil && !env
	m, err := schema.Parse(messages, out.Kind, kv.Value)
	if err == nil {
		if unknown := m.GetUnknown(); len(unknown) > 0 {
			out.Problem = fmt.Sprintf("%d bytes are fields that this version does not know", len(unknown))
		}
		mask(m, env)
		out.message, out.Value = m, make(map[string]any)
		err = asYAML(m).Decode(&out.Value)
	}
	if invalid := types.Decode(kv.Value, known); invalid != nil && (err == nil || !secret) {
		if err = invalid; secret {
			err = errors.New("a field is not valid; which one is not said, as that could show a secret")
		}
	}
	if err != nil {
		out.Problem = fmt.Sprintf("it counts as absent: %v", err)
	}
	if out.Problem != "" && !secret {
		out.Hex = hex.EncodeToString(kv.Value)
	}
	return out
}

// mask replaces secrets by dots.
func mask(m protoreflect.Message, env bool) {
	fields := m.Descriptor().Fields()
	for _, name := range []protoreflect.Name{tokenField, hashField} {
		if f := fields.ByName(name); f != nil && m.Has(f) {
			m.Set(f, protoreflect.ValueOfString("…"))
		}
	}
	if f := fields.ByName(envField); f != nil && !env {
		all := m.Get(f).List()
		for i := range all.Len() {
			name, _, _ := strings.Cut(all.Get(i).String(), "=")
			all.Set(i, protoreflect.ValueOfString(name+"=…"))
		}
	}
}

// writeYAML writes a message.
func writeYAML(w io.Writer, m protoreflect.Message) error {
	node := asYAML(m)
	if len(node.Content) == 0 {
		_, err := fmt.Fprintln(w, "{}")
		return err
	}
	var text bytes.Buffer // an error of w keeps its class then
	enc := yaml.NewEncoder(&text)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(node), enc.Close()); err != nil {
		return err
	}
	_, err := text.WriteTo(w)
	return err
}

// asYAML returns the fields of a message that are set, in the order of the schema.
func asYAML(m protoreflect.Message) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !m.Has(f) {
			continue
		}
		value := &yaml.Node{Kind: yaml.SequenceNode}
		if f.IsList() {
			all := m.Get(f).List()
			for i := range all.Len() {
				value.Content = append(value.Content, elementAsYAML(f, all.Get(i)))
			}
		} else {
			value = elementAsYAML(f, m.Get(f))
		}
		out.Content = append(out.Content, scalar(string(f.Name())), value)
	}
	return out
}

// elementAsYAML returns a value of a field that is not a list.
func elementAsYAML(f protoreflect.FieldDescriptor, v protoreflect.Value) *yaml.Node {
	switch {
	case f.Message() != nil:
		return asYAML(v.Message())
	case f.Kind() == protoreflect.BytesKind: // what servers have sealed
		return scalar(fmt.Sprintf("%d bytes", len(v.Bytes())))
	case f.Kind() == protoreflect.Int64Kind:
		node := scalar(v.Int())
		node.LineComment = meaning(v.Int())
		return node
	}
	return scalar(v.Interface())
}

// scalar returns a text, number or truth.
func scalar(v any) *yaml.Node {
	out := new(yaml.Node)
	_ = out.Encode(v) // every scalar can be
	return out
}

// meaning says what a number must be that is too large for anything else: an amount without bound, or a time in
// nanoseconds since 1970, from the year 2017 to 2116. It is empty for others.
func meaning(n int64) string {
	const earliest, latest = 1_500_000_000_000_000_000, 4_600_000_000_000_000_000
	switch {
	case n == math.MaxInt64:
		return "no bound"
	case n >= earliest && n < latest:
		return time.Unix(0, n).UTC().Format(time.RFC3339Nano)
	}
	return ""
}
