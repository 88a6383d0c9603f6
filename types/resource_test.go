package types

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"testing"

	"github.com/escher-sched/escher/types/action"
)

func TestResourceIDs(t *testing.T) {
	for _, c := range []struct {
		name                         string
		id                           ResourceID
		physical, placement, scoped  bool
		ns, base, reservation, holds string
		unit                         Unit
	}{
		{"cpu", "cpu", true, false, false, "", "cpu", "", "cpu", Milli},
		{"memory", "memory", true, false, false, "", "memory", "", "memory", Bytes},
		{"acme.com/fpga", "acme.com/fpga", true, false, false, "", "acme.com/fpga", "", "acme.com/fpga", Milli},
		{"node/n1", "node/n1", true, true, false, "", "node/n1", "", "node/n1", Milli},
		{"zone/a", "zone/a", true, true, false, "", "zone/a", "", "zone/a", Milli},
		{"x", "team:x", false, false, false, "team", "x", "", "team:x", Milli},
		{"gpu@train", "team:gpu@train", false, false, true, "team", "gpu", "train", "gpu", Milli},
		{"memory@train", "team:memory@train", false, false, true, "team", "memory", "train", "memory", Bytes},
		{"x@train", "team:x@train", false, false, true, "team", "x", "train", "team:x", Milli},
		{"acme.com/fpga@train", "team:acme.com/fpga@train", false, false, true, "team", "acme.com/fpga", "train", "acme.com/fpga", Milli},
		{"admin:slots", "admin:slots", false, false, false, "admin", "slots", "", "admin:slots", Milli},
	} {
		id := Resolve("team", c.name)
		if b := AppendResolved([]byte("x"), "team", c.name); string(b) != "x"+string(id) {
			t.Errorf("%s: appended it is %s", c.name, b)
		}
		ns, base, reservation := id.Split()
		if id != c.id || id.Physical() != c.physical || id.IsPlacement() != c.placement || id.Scoped() != c.scoped {
			t.Errorf("%s: %s, physical %v, placement %v, scoped %v", c.name, id, id.Physical(), id.IsPlacement(), id.Scoped())
		}
		if ns != c.ns || base != c.base || reservation != c.reservation || id.Unscoped() != ResourceID(c.holds) || UnitOf(id) != c.unit {
			t.Errorf("%s: %q %q %q, holds %s, unit %d", c.name, ns, base, reservation, id.Unscoped(), UnitOf(id))
		}
		if id.In("team") != c.name {
			t.Errorf("%s is known as %s", id, id.In("team"))
		}
		if c.scoped && id.Unscoped().Scope("team", "train") != id {
			t.Errorf("%s, scoped again, is %s", id.Unscoped(), id.Unscoped().Scope("team", "train"))
		}
	}
}

func TestRequests(t *testing.T) {
	r, err := MakeRequests(map[string]string{"gpu@train": "1", "cpu": "500m", "memory": "1Gi"})
	want := Requests{{"cpu", 500}, {"gpu@train", 1000}, {"memory", 1 << 30}}
	if err != nil || !reflect.DeepEqual(r, want) {
		t.Fatalf("got %v, %v, want %v", r, err, want)
	}
	if r.Get("cpu") != 500 || r.Get("none") != 0 {
		t.Errorf("it has %d cpu and %d none", r.Get("cpu"), r.Get("none"))
	}
	sum := r.Plus(Requests{{"cpu", 100}, {"x", 1}})
	if !reflect.DeepEqual(sum, Requests{{"cpu", 600}, {"gpu@train", 1000}, {"memory", 1 << 30}, {"x", 1}}) || r.Get("cpu") != 500 {
		t.Errorf("the sum is %v, of %v", sum, r)
	}
	_, err = MakeRequests(map[string]string{"cpu": "-1", "memory": "12"})
	refusal(t, err, "cpu: ", "memory: ")
}

func TestRequestsAsJSON(t *testing.T) {
	r := Requests{{"cpu", 500}, {"memory", 1 << 30}}
	data, err := json.Marshal(r)
	if err != nil || string(data) != `{"cpu":"0.5","memory":"1Gi"}` {
		t.Fatalf("%s, %v", data, err)
	}
	var back Requests
	if err := json.Unmarshal([]byte(`{"memory":"1Gi","cpu":0.5}`), &back); err != nil || !reflect.DeepEqual(back, r) {
		t.Errorf("got %v, %v", back, err)
	}
	for _, bad := range []string{`["cpu"]`, `{"cpu":-1}`, `{"cpu":true}`, `{"cpu":null}`, `{"memory":5}`} {
		err := json.Unmarshal([]byte(bad), &back)
		if !Is(err, Invalid) {
			t.Errorf("%s: got %v, want it refused", bad, err)
		}
	}
}

func TestSelectorMatches(t *testing.T) {
	n := &Node{Labels: []Label{{"rack", "r7"}, {"zone", "a"}}}
	for _, c := range []struct {
		s    Selector
		want bool
	}{
		{Selector{}, true},
		{Selector{Nodes: []string{"n1", "n2"}}, true},
		{Selector{Nodes: []string{"n2"}}, false},
		{Selector{Labels: []Label{{"rack", "r7"}, {"zone", "a"}}}, true},
		{Selector{Labels: []Label{{"rack", "r7"}, {"zone", "b"}}}, false},
		{Selector{Labels: []Label{{"none", "x"}}}, false},
		{Selector{Nodes: []string{"n1"}, Labels: []Label{{"rack", "r8"}}}, false},
	} {
		if got := c.s.Matches("n1", n); got != c.want {
			t.Errorf("%+v: %v", c.s, got)
		}
	}
}

func TestErrorClasses(t *testing.T) {
	codes := make(map[int]Class)
	for _, c := range Classes() {
		if c.String() == "" || c.ExitCode() == 0 {
			t.Errorf("class %d has name %q and exit code %d", c, c, c.ExitCode())
		}
		if other, ok := codes[c.ExitCode()]; ok {
			t.Errorf("%s and %s have the same exit code", c, other)
		}
		codes[c.ExitCode()] = c
		if c.Retryable() != (c == Unavailable || c == Unknown) {
			t.Errorf("%s: retryable is %v", c, c.Retryable())
		}
	}
	cause := errors.New("cause")
	err := fmt.Errorf("outer: %w", Errorf(Conflict, "bind task: %w", Errorf(Invalid, "inner: %w", cause)))
	if ClassOf(err) != Conflict || !Is(err, Conflict) || Is(nil, Internal) || ClassOf(cause) != Internal || !errors.Is(err, cause) {
		t.Errorf("%v is of class %s", err, ClassOf(err))
	}
}

// TestErrorsIs: errors.Is finds the outermost class, as ClassOf does, and errors.Is and errors.As
// find causes, which have no classes.
func TestErrorsIs(t *testing.T) {
	root := &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}
	inner := Errorf(NotFound, "read: %w", root)
	for _, err := range []error{
		Errorf(Unavailable, "reach it: %w", inner),
		fmt.Errorf("outer: %w", Errorf(Unavailable, "reach it: %w", errors.Join(inner, errors.New("more")))),
		Errorf(Unavailable, "reach it: %w: %s", inner, action.ListNodes.Of()),
	} {
		if !errors.Is(err, Unavailable) || errors.Is(err, NotFound) || errors.Is(err, Internal) || ClassOf(err) != Unavailable {
			t.Errorf("%v is of another class than Unavailable", err)
		}
		path, ok := errors.AsType[*fs.PathError](err)
		if !errors.Is(err, fs.ErrNotExist) || !ok || path != root {
			t.Errorf("%v has lost its cause", err)
		}
	}
	if errors.Is(root, Internal) || !errors.Is(inner, NotFound) {
		t.Error("an unclassified error has a class, or a classified one has none")
	}
}

func TestAmountIsTheLimitOfATask(t *testing.T) {
	b := Binding{Holds: []Holding{{Resource: "memory", Amount: 1}, {Resource: "team:memory@train", Amount: 2}, {Resource: "cpu", Amount: 4}}}
	if got := b.Amount(Memory); got != 3 {
		t.Errorf("got %d, want what it holds and what it draws from a reservation", got)
	}
}

func TestGrantOn(t *testing.T) {
	g := Grant{Nodes: []GrantNode{{Node: "n1", Holds: []Holding{{Resource: "cpu", Amount: 1}}}}}
	if len(g.On("n1")) != 1 || g.On("n2") != nil {
		t.Errorf("on n1 %v, on n2 %v", g.On("n1"), g.On("n2"))
	}
}
