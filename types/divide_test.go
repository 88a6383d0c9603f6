package types

import (
	"bytes"
	"reflect"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// divided divides a value and puts the parts together again.
func divided(t *testing.T, m Message, value []byte) (Message, error) {
	t.Helper()
	var rest []byte
	var err error
	again := blank(m)
	var join func()
	switch again := again.(type) {
	case *Task:
		var own OwnOfTask
		rest, err = own.Divide(value, nil)
		join = func() {
			again.Name, again.Job, again.Submitted, again.Index = string(own.Name), string(own.Job), own.Submitted, int(own.Index)
		}
	case *Status:
		var own OwnOfStatus
		rest, err = own.Divide(value, nil)
		join = func() {
			again.Node, again.Bound, again.Started, again.Ended, again.Used = string(own.Node), own.Bound, own.Started, own.Ended, own.Used
		}
	case *Binding:
		var own OwnOfBinding
		rest, err = own.Divide(value, nil)
		join = func() { again.Session, again.Bound = own.Session, own.Bound }
	case *Report:
		var own OwnOfReport
		rest, err = own.Divide(value, nil)
		join = func() {
			again.Binding, again.Started, again.Ended, again.Used = own.Binding, own.Started, own.Ended, own.Used
		}
	}
	if err != nil {
		return nil, err
	}
	if err := Parse(rest, again); err != nil {
		return nil, err
	}
	join()
	return again, nil
}

// dividing lists the kinds that can be divided.
func dividing() []string { return []string{"Task", "Status", "Binding", "Report"} }

// TestDividedIsWhatWasStored checks that division loses and changes nothing, whatever the fields.
// Two values that differ only in their own fields and writers have the same rest.
func TestDividedIsWhatWasStored(t *testing.T) {
	later := protowire.AppendString(protowire.AppendTag(nil, 200, protowire.BytesType), "of a later version")
	later = protowire.AppendFixed32(protowire.AppendTag(later, 201, protowire.Fixed32Type), 4711)
	for _, name := range dividing() {
		m := full()[name]
		for _, value := range [][]byte{Encode(5, m), append(Encode(5, m), later...), Encode(1, messages()[name])} {
			want := blank(m)
			if err := Parse(value, want); err != nil {
				t.Fatal(err)
			}
			got, err := divided(t, m, value)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %+v, want %+v: %v", name, got, want, err)
			}
		}
	}
	var a, b OwnOfTask
	one, _ := a.Divide(Encode(1, &Task{Name: "a", Job: "x", Submitted: 1, Index: 7, Spec: "s"}), nil)
	two, _ := b.Divide(Encode(2, &Task{Name: "b", Job: "y", Submitted: 2, Spec: "s"}), nil)
	if !bytes.Equal(one, two) || a.Submitted != 1 || string(b.Name) != "b" {
		t.Errorf("the rest of alike tasks is % x and % x", one, two)
	}
}

// FuzzDivide checks that exactly the decodable values can be divided, with the same result.
func FuzzDivide(f *testing.F) {
	for _, name := range dividing() {
		f.Add(Encode(3, full()[name]))
	}
	f.Add([]byte{1, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, name := range dividing() {
			want := messages()[name]
			wrong := Parse(value, want)
			got, err := divided(t, want, value)
			if (err == nil) != (wrong == nil) {
				t.Fatalf("%s: divided: %v, decoded: %v", name, err, wrong)
			}
			if err == nil && !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: got %+v, want %+v", name, got, want)
			}
		}
	})
}

func BenchmarkDivideBinding(b *testing.B) {
	value := Encode(1, &Binding{Session: 1000, Bound: 1_760_000_000_000_000_000, Spec: "sha256-0123456789", Holds: []Holding{
		{Resource: "cpu", Amount: 1000}, {Resource: "memory", Amount: 1 << 30},
	}})
	var own OwnOfBinding
	rest := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := own.Divide(value, rest); err != nil {
			b.Fatal(err)
		}
	}
}
