package drain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/drain"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// TestOrder reads drains, and refuses wrong ones.
func TestOrder(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		order drain.Order
		want  types.Cordon
		says  string
	}{
		{order: drain.Order{}, want: types.Cordon{Drain: types.DrainFinish, DrainBy: now.Add(time.Hour).UnixNano()}},
		{order: drain.Order{Deadline: new(time.Minute), Reason: "disk"}, want: types.Cordon{Drain: types.DrainFinish, DrainBy: now.Add(time.Minute).UnixNano(), Reason: "disk"}},
		{order: drain.Order{Deadline: new(time.Duration(0))}, want: types.Cordon{Drain: types.DrainFinish}},
		{order: drain.Order{Mode: types.DrainMove, Grace: new(time.Second)}, want: types.Cordon{Drain: types.DrainMove, Grace: time.Second}},
		{order: drain.Order{Mode: types.DrainStop, Grace: new(time.Duration(0))}, want: types.Cordon{Drain: types.DrainStop, Grace: controlplane.NoGrace}},
		{order: drain.Order{Mode: "slowly"}, says: `mode: "slowly" is unknown`},
		{order: drain.Order{Deadline: new(-time.Second)}, says: "deadline: -1s is negative"},
		{order: drain.Order{Mode: types.DrainMove, Deadline: new(time.Minute)}, says: "deadline: is for mode finish"},
		{order: drain.Order{Grace: new(-time.Second)}, says: "grace: -1s is negative"},
	} {
		got, err := c.order.Cordon(now)
		switch {
		case c.says != "" && (!types.Is(err, types.Invalid) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%+v: %v, want %q", c.order, err, c.says)
		case c.says == "" && (err != nil || got.Drain != c.want.Drain || got.DrainBy != c.want.DrainBy || got.Grace != c.want.Grace || got.Reason != c.want.Reason):
			t.Errorf("%+v: %+v, %v; want %+v", c.order, got, err, c.want)
		}
	}
}

// TestWhatStays names the tasks that can run on a node alone, and the reservations with grants there.
func TestWhatStays(t *testing.T) {
	s := memstore.New()
	change := controlplane.NewChange(controlplane.NewBatch())
	for id, requests := range map[string]map[string]types.Quantity{"named": {"node/n1": 1}, "free": {"cpu": 1}, "tied": {"slots": 1}} {
		task := types.Task{Requests: types.NewRequests(requests)}
		binding := types.Binding{}
		if id == "tied" {
			binding.Holds = []types.Holding{{Resource: "team:slots", Amount: 1}}
		}
		change.Put(controlplane.TaskKey("team", id), &task)
		change.Put(controlplane.BindingKey("n1", "team", id, 1), &binding)
	}
	change.Put(controlplane.ResourceKey("team", "slots", "n1"), &types.Resource{})
	change.Put(controlplane.GrantKey("team", "held"), &types.Grant{Phase: types.Granted, Reservation: 1, Nodes: []types.GrantNode{{Node: "n1"}}})
	change.Put(controlplane.GrantKey("team", "other"), &types.Grant{Phase: types.Granted, Reservation: 1, Nodes: []types.GrantNode{{Node: "n2"}}})
	if _, err := s.Commit(t.Context(), change.Txn()); err != nil {
		t.Fatal(err)
	}
	stays, err := drain.WhatStays(t.Context(), s, "n1", types.DrainMove)
	if err != nil || len(stays.Tied) != 2 || stays.Tied[0].String() != "team/named (it names the node)" || stays.Tied[1].String() != "team/tied (slots is there alone)" {
		t.Errorf("%+v, %v", stays.Tied, err)
	}
	if len(stays.Granted) != 1 || stays.Granted[0] != "team/held" {
		t.Errorf("granted: %v", stays.Granted)
	}
	if stays, err = drain.WhatStays(t.Context(), s, "n1", types.DrainStop); err != nil || len(stays.Tied) != 0 || len(stays.Granted) != 1 {
		t.Errorf("stopped: %+v, %v", stays, err)
	}
}
