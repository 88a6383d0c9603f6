package esl_test

import (
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// TestNameOf finds the resources of policies of other jobs.
func TestNameOf(t *testing.T) {
	v := cluster.New()
	put := func(key string, m types.Message) {
		if _, _, err := v.Apply(controlplane.Event{KV: controlplane.KV{Key: key, Value: types.Encode(1, m), CreateRevision: 1, ModRevision: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	kept := []types.Policy{{Kind: "acme.com/night"}, {Kind: "night"}, {Kind: "use", With: `{"name":"batch","of":"queue"}`}}
	for id, submitted := range map[string]int64{"prep-1": 2, "prep-2": 3, "prep-0": 1} {
		put(controlplane.JobKey("d", id), &types.Job{Name: "prep", Tasks: 1, Submitted: submitted})
		put(controlplane.PoliciesKey("d", id), &types.Policies{Job: id, Policies: kept})
	}
	put(controlplane.JobKey("e", "prep-9"), &types.Job{Name: "prep", Tasks: 1, Submitted: 9})
	s := &esl.State{View: v, Namespace: "d"}
	for _, c := range []struct{ job, kind, suffix, want string }{
		{"prep-1", "acme.com/night", "", "prep-1.night"},
		{"prep", "queue", "0", "prep-2.queue.0"},
		{"prep-1", "spread", "", ""},
		{"none", "queue", "", ""},
		{"prep-9", "queue", "", ""},
	} {
		got, ok := s.NameOf(c.job, c.kind, c.suffix)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%s of %s is %q, %t", c.kind, c.job, got, ok)
		}
		if made := esl.NameOf(c.job, c.kind, c.suffix); c.job == "prep-1" && c.want != "" && made != c.want {
			t.Errorf("%s of %s is %q", c.kind, c.job, made)
		}
	}
}
