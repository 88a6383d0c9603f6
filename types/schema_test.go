package types

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/escher-sched/escher/types/schema"
	"github.com/escher-sched/escher/types/wire"
)

// published returns the messages of escher.proto.
func published(t *testing.T) protoreflect.MessageDescriptors {
	t.Helper()
	all, err := schema.Messages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestSchemaHasEveryMessage(t *testing.T) {
	var stored []string
	all := published(t)
	for i := range all.Len() {
		d := all.Get(i)
		if f := d.Fields().ByNumber(wire.Batch); f != nil {
			if f.Name() != "batch" || f.Kind() != protoreflect.Fixed64Kind {
				t.Errorf("%s: field 1 is %s %s, want fixed64 batch", d.Name(), f.Kind(), f.Name())
			}
			stored = append(stored, string(d.Name()))
		}
	}
	slices.Sort(stored)
	if want := slices.Sorted(maps.Keys(messages())); !slices.Equal(stored, want) {
		t.Errorf("the schema stores %v, this package %v", stored, want)
	}
}

// The encoding is that of the schema, byte for byte.
func TestEncodingIsThatOfTheSchema(t *testing.T) {
	all := published(t)
	for name, m := range full() {
		value := Encode(77, m)
		d, err := schema.Parse(all, name, value)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		checkKnown(t, name, d)
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(d.Interface())
		if err != nil {
			t.Fatal(err)
		}
		if again = append([]byte{wireVersion}, again...); !bytes.Equal(again, value) {
			t.Errorf("%s: the schema writes\n% x, we write\n% x", name, again, value)
		}
		got := blank(m)
		if err := Parse(again, got); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, m)
		}
	}
}

// checkKnown fails if the encoding has a field outside the schema.
func checkKnown(t *testing.T, path string, m protoreflect.Message) {
	t.Helper()
	if raw := m.GetUnknown(); len(raw) > 0 {
		t.Errorf("%s: the schema does not know % x", path, raw)
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Message() == nil {
			return true
		}
		at := path + "." + string(f.Name())
		if !f.IsList() {
			checkKnown(t, at, v.Message())
			return true
		}
		for i := range v.List().Len() {
			checkKnown(t, at, v.List().Get(i).Message())
		}
		return true
	})
}

// Every field of the schema is known: none is kept as a field of a later version, and no nested one
// is dropped.
func TestSchemaSaysNoMoreThanWeKnow(t *testing.T) {
	all := published(t)
	for name, m := range messages() {
		d := dynamicpb.NewMessage(all.ByName(protoreflect.Name(name)))
		fillFields(d)
		value, err := proto.MarshalOptions{Deterministic: true}.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if err := Parse(append([]byte{wireVersion}, value...), m); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if raw := m.extra().raw; len(raw) > 0 {
			t.Errorf("%s: % x is unknown to us", name, raw)
		}
		if again := Encode(7, m); !bytes.Equal(again[1:], value) {
			t.Errorf("%s: we write\n% x, the schema\n% x", name, again[1:], value)
		}
	}
}

// fillFields sets every field of the schema.
func fillFields(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		value := func() protoreflect.Value {
			switch f.Kind() {
			case protoreflect.StringKind:
				return protoreflect.ValueOfString("text")
			case protoreflect.BytesKind:
				return protoreflect.ValueOfBytes([]byte("bytes"))
			case protoreflect.BoolKind:
				return protoreflect.ValueOfBool(true)
			case protoreflect.Fixed64Kind:
				return protoreflect.ValueOfUint64(7)
			case protoreflect.MessageKind:
				nested := dynamicpb.NewMessage(f.Message())
				fillFields(nested)
				return protoreflect.ValueOfMessage(nested)
			}
			return protoreflect.ValueOfInt64(int64(f.Number()))
		}
		if f.IsList() {
			l := m.Mutable(f).List()
			l.Append(value())
			l.Append(value())
			continue
		}
		m.Set(f, value())
	}
}
