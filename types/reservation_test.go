package types

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// TestFormerReservation: a reservation that an earlier version stored with the switches at_once and
// for_itself is directed to the nodes of its bundles. One without at_once is as before.
func TestFormerReservation(t *testing.T) {
	cpu := NewRequests(map[string]Quantity{"cpu": 1000})
	for name, c := range map[string]struct {
		fields []protowire.Number
		want   Reservation
	}{
		"handed over": {[]protowire.Number{9}, Reservation{Collect: &Collect{On: []string{"n1", "n2"}, HandOver: true}}},
		"granted":     {[]protowire.Number{9, 12}, Reservation{Collect: &Collect{On: []string{"n1", "n2"}}}},
		"accumulates": {nil, Reservation{Accumulate: true}},
		"half":        {[]protowire.Number{12}, Reservation{Accumulate: true}},
	} {
		c.want.Bundles = []Bundle{{Requests: cpu, Node: "n1"}, {Requests: cpu, Node: "n2"}}
		c.want.Job, c.want.Priority = "j", 5
		value := Encode(7, &Reservation{Bundles: c.want.Bundles, Priority: 5, Accumulate: true, Job: "j"})
		for _, n := range c.fields {
			value = protowire.AppendVarint(protowire.AppendTag(value, n, protowire.VarintType), 1)
		}
		var got, again Reservation
		if err := Decode(value, &got); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: read %+v, %v, want %+v", name, got, err, c.want)
		}
		if err := Decode(Encode(8, &got), &again); err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%s: then %+v, %v", name, again, err)
		}
	}
}

// TestFormerReservationWithoutBundles: such a value is invalid, but it survives encoding like any
// other.
func TestFormerReservationWithoutBundles(t *testing.T) {
	value := Encode(7, new(Reservation))
	value = protowire.AppendVarint(protowire.AppendTag(value, 9, protowire.VarintType), 1)
	var got, again Reservation
	if err := Parse(value, &got); err != nil || got.Collect == nil {
		t.Fatalf("read %+v, %v", got, err)
	}
	if err := Parse(Encode(8, &got), &again); err != nil || !reflect.DeepEqual(again, got) {
		t.Errorf("then %+v, %v, want %+v", again, err, got)
	}
}

// TestDirection: a reservation that its maker directs names a node for each bundle, the required one
// if any. Only such a one hands over.
func TestDirection(t *testing.T) {
	cpu := NewRequests(map[string]Quantity{"cpu": 1000})
	bundles := []Bundle{{Requests: cpu, Node: "n1"}, {Requests: cpu}}
	on := func(nodes ...string) *Collect { return &Collect{On: nodes} }
	for _, r := range []Reservation{
		{Bundles: bundles, Collect: on("n1", "n2")},
		{Bundles: bundles, Collect: &Collect{On: []string{"n1", "n1"}, HandOver: true}},
		{Bundles: bundles, Collect: on("n1"), Accumulate: true}, // a library may be wrong
	} {
		if err := r.Validate(); err != nil || r.Directed() == r.Accumulate {
			t.Errorf("%+v: %v", r, err)
		}
	}
	refusal(t, (&Reservation{Bundles: bundles, Collect: on("n1")}).Validate(), "collect.on: has 1 nodes for 2 bundles", "name one for each")
	refusal(t, (&Reservation{Bundles: bundles, Collect: NewCollect(bundles, true)}).Validate(), "collect.on[1]: is empty", "name the node")
	refusal(t, (&Reservation{Bundles: bundles, Collect: on("n2", "n2")}).Validate(), "collect.on[0]: is n2", "to be on n1")
	refusal(t, (&Reservation{Bundles: bundles, Accumulate: true, Collect: &Collect{HandOver: true}}).Validate(), "collect.handOver: is set, but also accumulate", "leave out one")
	refusal(t, (&Task{Spec: "s", Requests: cpu, Later: &Later{Collect: on("n1")}}).Validate(), "accumulate: is false, but collect is set", "set both")
	refusal(t, (&Task{Spec: "s", Requests: cpu, Accumulate: true, Later: &Later{Collect: &Collect{On: []string{"n1"}, HandOver: true}}}).Validate(), "collect.handOver: is set", "leave it out")
}
