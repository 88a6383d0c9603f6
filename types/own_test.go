package types

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/escher-sched/escher/types/wire"
)

// ownValid divides a value and reports whether its own fields are valid, and so is its rest.
func ownValid(t *testing.T, m Message, value []byte) (own, rest bool) {
	t.Helper()
	var part interface {
		Divide(value, rest []byte) ([]byte, error)
		Validate() error
	}
	switch m.(type) {
	case *Task:
		part = &OwnOfTask{}
	case *Status:
		part = &OwnOfStatus{}
	case *Binding:
		part = &OwnOfBinding{}
	case *Report:
		part = &OwnOfReport{}
	}
	left, err := part.Divide(value, nil)
	if err != nil {
		t.Fatal(err)
	}
	return part.Validate() == nil, Decode(left, blank(m)) == nil
}

// TestDividedIsValidated checks that a divided value is refused exactly if the whole one is, and for
// the part at fault.
func TestDividedIsValidated(t *testing.T) {
	task := func(change func(*Task)) *Task { x := goodTask(); change(&x); return &x }
	status := func(s Status) *Status { s.Phase = Running; return &s }
	report := func(r Report) *Report { r.Phase = ReportRunning; return &r }
	for name, c := range map[string]struct {
		m    Message
		own  bool
		rest bool
	}{
		"task":                    {task(func(*Task) {}), true, true},
		"task of a job":           {task(func(x *Task) { x.Job, x.Index, x.Count = "j", MaxCount, MaxCount }), true, true},
		"task, name":              {task(func(x *Task) { x.Name = "a/b" }), false, true},
		"task, longest name":      {task(func(x *Task) { x.Name = strings.Repeat("a", MaxName) }), true, true},
		"task, too long a name":   {task(func(x *Task) { x.Name = strings.Repeat("a", MaxName+1) }), false, true},
		"task, job":               {task(func(x *Task) { x.Job = "-" }), false, true},
		"task, submitted":         {task(func(x *Task) { x.Submitted = -1 }), false, true},
		"task, last moment":       {task(func(x *Task) { x.Submitted = MaxMoment }), true, true},
		"task, after it":          {task(func(x *Task) { x.Submitted = MaxMoment + 1 }), false, true},
		"task, negative index":    {task(func(x *Task) { x.Index = -1 }), false, true},
		"task, index":             {task(func(x *Task) { x.Index = MaxCount + 1 }), false, true},
		"task, priority":          {task(func(x *Task) { x.Priority = MaxPriority + 1 }), true, false},
		"task, name and priority": {task(func(x *Task) { x.Name, x.Priority = "..", MaxPriority+1 }), false, false},
		"status":                  {status(Status{Node: "n1", Bound: 1, Started: 2, Ended: MaxMoment}), true, true},
		"status, node":            {status(Status{Node: "n 1"}), false, true},
		"status, bound":           {status(Status{Bound: -1}), false, true},
		"status, started":         {status(Status{Started: math.MinInt64}), false, true},
		"status, ended":           {status(Status{Ended: math.MaxInt64}), false, true},
		"status, attempt":         {status(Status{Attempt: -1}), true, false},
		"binding":                 {&Binding{Session: math.MaxInt64, Bound: 7}, true, true},
		"binding, session":        {&Binding{Session: -1}, false, true},
		"binding, bound":          {&Binding{Bound: MaxMoment + 1}, false, true},
		"binding, alternative":    {&Binding{Alternative: -1}, true, false},
		"report":                  {report(Report{Binding: 3, Started: 1, Ended: 2}), true, true},
		"report, binding":         {report(Report{Binding: -3}), false, true},
		"report, started":         {report(Report{Started: -1}), false, true},
		"report, ended":           {report(Report{Ended: MaxMoment + 1}), false, true},
		"status, used":            {status(Status{Used: Used{CPU: MaxQuantity, Memory: MaxQuantity}}), true, true},
		"status, used cpu":        {status(Status{Used: Used{CPU: -1}}), false, true},
		"report, used memory":     {report(Report{Used: Used{Memory: MaxQuantity + 1}}), false, true},
		"report, health":          {report(Report{Health: "fine"}), true, false},
	} {
		value := Encode(7, c.m)
		own, rest := ownValid(t, c.m, value)
		if whole := Decode(value, blank(c.m)) == nil; own != c.own || rest != c.rest || whole != (own && rest) {
			t.Errorf("%s: own %t, rest %t, whole %t, want %t, %t", name, own, rest, whole, c.own, c.rest)
		}
	}
}

// TestBrokenValues checks that no reader takes a value that is cut off, or has a field of another
// type.
func TestBrokenValues(t *testing.T) {
	x := goodTask()
	whole := Encode(7, &x)
	tag := func(num protowire.Number, typ protowire.Type, more ...byte) []byte {
		return append(protowire.AppendTag([]byte{wireVersion}, num, typ), more...)
	}
	for name, value := range map[string][]byte{
		"nothing":              nil,
		"another version":      append([]byte{wireVersion + 1}, whole[1:]...),
		"the last byte":        whole[:len(whole)-1],
		"a batch cut off":      tag(wire.Batch, protowire.Fixed64Type, 1, 2, 3),
		"a second batch cut":   append(append([]byte(nil), whole...), tag(wire.Batch, protowire.Fixed64Type, 1)[1:]...),
		"a text cut off":       tag(2, protowire.BytesType, 5, 'a'),
		"an endless number":    tag(9, protowire.VarintType, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
		"a group without end":  tag(300, protowire.StartGroupType),
		"an end without group": tag(300, protowire.EndGroupType),
		"field 0":              {wireVersion, 0, 0},
		"a list cut inside":    tag(4, protowire.BytesType, 2, 0x12, 9),
	} {
		if err := Parse(value, &Task{}); !Is(err, Internal) {
			t.Errorf("%s: parsed: %v", name, err)
		}
		if _, err := (&OwnOfTask{}).Divide(value, nil); err == nil && name != "a list cut inside" {
			t.Errorf("%s is divided", name)
		}
	}
	for name, value := range map[string][]byte{"a number as a text": tag(9, protowire.BytesType, 1, '7'), "a text as a number": tag(2, protowire.VarintType, 7)} {
		got := Task{}
		if err := Parse(value, &got); err != nil || got.Submitted != 0 || got.Name != "" || !bytes.HasSuffix(Encode(0, &got), value[1:]) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, want := range map[string]uint64{string(whole): 7, "": 0, "\x01": 0, string(tag(2, protowire.BytesType, 0)): 0, string(tag(wire.Batch, protowire.VarintType, 9)): 0} {
		if got := Batch([]byte(name)); got != want {
			t.Errorf("%q: batch %d, want %d", name, got, want)
		}
	}
	if !Same(whole, &x) || !Same(Encode(0, &x), &x) {
		t.Error("a value is not that of its own message")
	}
	if x.Priority++; Same(whole, &x) || Same(nil, &x) {
		t.Error("a value is that of another message")
	}
}

// TestSizesAtTheBound stores values of exactly the largest size, and one byte more.
func TestSizesAtTheBound(t *testing.T) {
	for name, c := range map[string]struct {
		m    Message
		most int
	}{"task": {&Task{}, MaxTaskBytes}, "spec": {&Spec{}, MaxSpecBytes}, "node": {&Node{}, MaxMessageBytes}} {
		if err := CheckSize("/escher/x", c.m, c.most); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		err := CheckSize("/escher/x", c.m, c.most+1)
		refusal(t, err, "write /escher/x: ", "split it")
		if err := Decode(make([]byte, c.most+1), c.m); !Is(err, Internal) || !strings.Contains(err.Error(), "at most") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFormerVersions reads what earlier versions stored of collecting reservations and grants.
func TestFormerVersions(t *testing.T) {
	flag := func(b []byte, num protowire.Number) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), 1)
	}
	bundles := Encode(0, &Reservation{Bundles: []Bundle{{Node: "n1"}, {Node: "n2"}}, Accumulate: true})
	for handOver, value := range map[bool][]byte{true: flag(append([]byte(nil), bundles...), 9), false: flag(flag(append([]byte(nil), bundles...), 9), 12)} {
		var r Reservation
		if err := Parse(value, &r); err != nil || r.Accumulate || !r.Directed() || r.HandsOver() != handOver || strings.Join(r.Collect.On, " ") != "n1 n2" {
			t.Errorf("%t: %+v, %+v, %v", handOver, r, r.Collect, err)
		}
	}
	var r Reservation
	if err := Parse(flag(append([]byte(nil), bundles...), 12), &r); err != nil || !r.Accumulate || r.Collect != nil {
		t.Errorf("%+v, %v", r, err)
	}
	var g Grant
	if err := Parse(Encode(0, &Grant{Phase: "accumulating"}), &g); err != nil || g.Phase != Collecting {
		t.Errorf("%+v, %v", g, err)
	}
}
