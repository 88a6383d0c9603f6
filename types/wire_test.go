package types

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

func TestEveryFieldSurvivesTheRoundTrip(t *testing.T) {
	for name, m := range full() {
		value := Encode(77, m)
		if got := Batch(value); got != 77 {
			t.Errorf("%s: batch is %d, want 77", name, got)
		}
		got := blank(m)
		if err := Parse(value, got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(got, m) {
			t.Errorf("%s: got %+v, want %+v", name, got, m)
		}
	}
}

func TestEmptyMessagesTakeNoSpace(t *testing.T) {
	for name, m := range messages() {
		if n := len(Encode(1, m)); n != 10 {
			t.Errorf("%s: an empty one takes %d bytes, want the version and the batch, 10", name, n)
		}
	}
}

func TestExtremeIntegers(t *testing.T) {
	for _, n := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64} {
		var got Resource
		if err := Parse(Encode(1, &Resource{Capacity: Quantity(n)}), &got); err != nil || int64(got.Capacity) != n {
			t.Errorf("%d came back as %d, %v", n, got.Capacity, err)
		}
	}
}

func TestUnknownFieldsAreWrittenBack(t *testing.T) {
	later := protowire.AppendTag(nil, 200, protowire.BytesType)
	later = protowire.AppendString(later, "of a later version")
	later = protowire.AppendTag(later, 201, protowire.Fixed32Type)
	later = protowire.AppendFixed32(later, 4711)
	for name, m := range full() {
		var read = blank(m)
		if err := Parse(append(Encode(1, m), later...), read); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if again := Encode(2, read); !bytes.HasSuffix(again, later) {
			t.Errorf("%s: what a later version added is lost: % x", name, again)
		}
	}
}

// A field of a later version may come between known ones, and fields may come in any order, as
// other encoders write them.
func TestFieldsInAnyOrder(t *testing.T) {
	field := func(num protowire.Number, text string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, num, protowire.BytesType), text)
	}
	batch := protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), 9)
	parts := [][]byte{field(6, "user"), field(99, "later"), field(3, "a"), batch, field(2, "image"), field(3, "b"), field(5, "dir")}
	var s Spec
	if err := Parse(append([]byte{1}, bytes.Join(parts, nil)...), &s); err != nil {
		t.Fatal(err)
	}
	want := Spec{Extra: Extra{raw: string(field(99, "later"))}, Image: "image", Entrypoint: []string{"a", "b"}, Dir: "dir", User: "user"}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v, want %+v", s, want)
	}
}

// The elements of a list may come in several runs, with other fields in between, and may have
// fields of a later version.
func TestListInSeveralRuns(t *testing.T) {
	field := func(num protowire.Number, content []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), content)
	}
	hold := func(name string) []byte {
		return field(3, append(field(9, []byte("later")), field(2, []byte(name))...))
	}
	parts := [][]byte{hold("a"), hold("b"), field(6, []byte("spec")), hold("c"), field(99, []byte("later")), hold("d"), hold("e")}
	var b Binding
	if err := Parse(append([]byte{1}, bytes.Join(parts, nil)...), &b); err != nil {
		t.Fatal(err)
	}
	want := Binding{Extra: Extra{raw: string(field(99, []byte("later")))}, Spec: "spec"}
	for _, name := range []ResourceID{"a", "b", "c", "d", "e"} {
		want.Holds = append(want.Holds, Holding{Resource: name})
	}
	if !reflect.DeepEqual(b, want) {
		t.Errorf("got %+v, want %+v", b, want)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := Encode(1, &Spec{Image: "image", Command: []string{"run"}})
	for name, value := range map[string][]byte{
		"nothing":         {},
		"another version": append([]byte{2}, good[1:]...),
		"a cut value":     good[:len(good)-1],
		"text":            []byte("\x01{\"image\": \"x\"}"),
	} {
		err := Parse(value, new(Spec))
		if !Is(err, Internal) {
			t.Errorf("%s: got %v, want an internal error", name, err)
		}
	}
	if err := Parse(nil, new(Spec)); errors.Unwrap(err) == nil {
		t.Errorf("the cause is lost: %v", err)
	}
}

func TestSameLooksAtContentNotWriter(t *testing.T) {
	m := &Resource{Capacity: 5, Owner: "t"}
	if !Same(Encode(1, m), m) || !Same(Encode(2, m), m) {
		t.Error("the same resource of another writer is told apart")
	}
	if Same(Encode(1, m), &Resource{Capacity: 6, Owner: "t"}) || Same(nil, m) || Same([]byte{1}, m) {
		t.Error("different values are the same")
	}
}

// FuzzDecode passes any bytes to every kind of message. A parsed message survives encoding, unknown
// fields included; a decoded one is valid and small enough to be stored.
func FuzzDecode(f *testing.F) {
	for _, m := range full() {
		f.Add(Encode(3, m))
	}
	f.Add([]byte{1, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, value []byte) {
		for name, m := range messages() {
			if Parse(value, m) != nil {
				continue
			}
			again := blank(m)
			if err := Parse(Encode(Batch(value), m), again); err != nil {
				t.Fatalf("%s: its encoding cannot be decoded: %v", name, err)
			}
			if !reflect.DeepEqual(again, m) {
				t.Fatalf("%s: got %+v, want %+v", name, again, m)
			}
			if err := Decode(value, blank(m)); err != nil && !Is(err, Internal) {
				t.Fatalf("%s: %v is of class %s", name, err, ClassOf(err))
			} else if err == nil && len(Encode(0, m)) > MaxMessageBytes+16 {
				t.Fatalf("%s: %d bytes are valid", name, len(Encode(0, m)))
			}
		}
	})
}

func BenchmarkEncodeBinding(b *testing.B) {
	m := full()["Binding"]
	for b.Loop() {
		Encode(1, m)
	}
}

func BenchmarkDecodeBinding(b *testing.B) {
	value := Encode(1, full()["Binding"])
	for b.Loop() {
		if err := Parse(value, new(Binding)); err != nil {
			b.Fatal(err)
		}
	}
}
