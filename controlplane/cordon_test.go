package controlplane_test

import (
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// cordonOf returns the cordon of a node, nil if it has none.
func (w *world) cordonOf(node string) *types.Cordon {
	w.t.Helper()
	page, err := w.store.List(w.t.Context(), controlplane.ListOptions{Key: controlplane.CordonKey(node)})
	if err != nil {
		w.t.Fatal(err)
	}
	if len(page.KVs) == 0 {
		return nil
	}
	c := new(types.Cordon)
	if err := types.Decode(page.KVs[0].Value, c); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// TestCordon cordons and uncordons nodes, each twice: the second time changes nothing.
func TestCordon(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.refused(types.NotFound, func() error { _, err := w.Cordon(ctx, "n1", types.Cordon{}); return err }, "cordon node n1", "no node n1")
	w.refused(types.NotFound, func() error { _, err := w.Uncordon(ctx, "n1"); return err }, "uncordon node n1", "no node n1")
	w.put(controlplane.NodeKey("n1"), &types.Node{})
	by := time.Unix(1000, 0).UnixNano()
	for _, step := range []struct {
		ask     types.Cordon
		changed bool
		want    types.Cordon
	}{
		{types.Cordon{}, true, types.Cordon{}},
		{types.Cordon{}, false, types.Cordon{}},
		{types.Cordon{Reason: "disk"}, true, types.Cordon{Reason: "disk"}},
		{types.Cordon{}, false, types.Cordon{Reason: "disk"}},
		{types.Cordon{Drain: types.DrainFinish, DrainBy: by}, true, types.Cordon{Reason: "disk", Drain: types.DrainFinish, DrainBy: by}},
		{types.Cordon{Reason: "disk"}, false, types.Cordon{Reason: "disk", Drain: types.DrainFinish, DrainBy: by}},
		{types.Cordon{Drain: types.DrainStop, Grace: time.Second}, true, types.Cordon{Reason: "disk", Drain: types.DrainStop, Grace: time.Second}},
	} {
		// An unanswered commit is checked.
		w.lossy.next(lost)
		changed, err := w.Cordon(ctx, "n1", step.ask)
		if err != nil || changed != step.changed {
			t.Errorf("cordon %+v: changed %v, %v; want %v", step.ask, changed, err, step.changed)
		}
		got := w.cordonOf("n1")
		if got == nil || got.Reason != step.want.Reason || got.Drain != step.want.Drain || got.DrainBy != step.want.DrainBy || got.Grace != step.want.Grace {
			t.Errorf("cordon %+v made %+v, want %+v", step.ask, got, step.want)
		}
	}
	for _, want := range []bool{true, false} {
		if changed, err := w.Uncordon(ctx, "n1"); err != nil || changed != want {
			t.Errorf("uncordon: changed %v, %v; want %v", changed, err, want)
		}
		if got := w.cordonOf("n1"); got != nil {
			t.Errorf("there is %+v", got)
		}
	}
}

// TestCordonSaysWhatIsWrong requests invalid drains.
func TestCordonSaysWhatIsWrong(t *testing.T) {
	w := newWorld(t)
	w.put(controlplane.NodeKey("n1"), &types.Node{})
	for text, c := range map[string]types.Cordon{
		`mode: "gone" is unknown`:   {Drain: "gone"},
		"deadline: applies to mode": {Drain: types.DrainMove, DrainBy: 1},
		"deadline: it is before":    {Drain: types.DrainFinish, DrainBy: -1},
		"grace: applies to a drain": {Grace: 1},
		"grace: -1ns is negative":   {Drain: types.DrainStop, Grace: -1},
		"has 1025 bytes: at most":   {Reason: strings.Repeat("x", types.MaxReason+1)},
	} {
		w.refused(types.Invalid, func() error { _, err := w.Cordon(t.Context(), "n1", c); return err }, text)
	}
	if got := w.cordonOf("n1"); got != nil {
		t.Errorf("there is %+v", got)
	}
}
