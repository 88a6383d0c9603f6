package apply_test

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/types"
)

// requested returns a job of three tasks with two policies.
func requested() ([]controlplane.Submission, []types.Policy) {
	spec := &types.Spec{Image: "img"}
	one := types.Task{Name: "a", Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}
	two := one
	two.Priority = 1
	return []controlplane.Submission{{Task: one, Spec: spec}, {Task: one, Spec: spec}, {Task: two, Spec: spec}},
		[]types.Policy{{Kind: "gang"}, {Kind: "apart", With: `{"perNode":2,"x":1}`}}
}

func TestRequestDigestTellsJobsApart(t *testing.T) {
	tasks, policies := requested()
	want := apply.RequestDigest(tasks, policies)
	for name, change := range map[string]func(tasks []controlplane.Submission, policies []types.Policy) ([]controlplane.Submission, []types.Policy){
		"fewer tasks": func(t []controlplane.Submission, p []types.Policy) ([]controlplane.Submission, []types.Policy) {
			return t[1:], p
		},
		"more of one": func(t []controlplane.Submission, p []types.Policy) ([]controlplane.Submission, []types.Policy) {
			return append(t, t[2]), p
		},
		"another request": func(t []controlplane.Submission, p []types.Policy) ([]controlplane.Submission, []types.Policy) {
			t[0].Task.Requests = types.NewRequests(map[string]types.Quantity{"cpu": 1})
			return t, p
		},
		"another spec": func(t []controlplane.Submission, p []types.Policy) ([]controlplane.Submission, []types.Policy) {
			t[1].Spec = &types.Spec{Image: "other"}
			return t, p
		},
		"another policy": func(t []controlplane.Submission, p []types.Policy) ([]controlplane.Submission, []types.Policy) {
			p[0].Kind = "spread"
			return t, p
		},
		"another parameter": func(t []controlplane.Submission, p []types.Policy) ([]controlplane.Submission, []types.Policy) {
			p[1].With = `{"perNode":3,"x":1}`
			return t, p
		},
		"another order of policies": func(t []controlplane.Submission, p []types.Policy) ([]controlplane.Submission, []types.Policy) {
			return t, []types.Policy{p[1], p[0]}
		},
	} {
		if apply.RequestDigest(change(requested())) == want {
			t.Errorf("%s: it is the same", name)
		}
	}
}

func TestRequestDigestOfTheSameIsTheSame(t *testing.T) {
	tasks, policies := requested()
	want := apply.RequestDigest(tasks, policies)
	tasks[0], tasks[2] = tasks[2], tasks[0]
	spec := *tasks[1].Spec
	tasks[1].Spec, tasks[1].Task.Deadline = &spec, time.Now().UnixNano()
	policies[1].With = `{ "x": 1, "perNode": 2 }`
	if got := apply.RequestDigest(tasks, policies); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	tasks[1].Spec, tasks[1].Task.Spec = nil, controlplane.SpecDigest(&spec)
	if got := apply.RequestDigest(tasks, policies); got != want {
		t.Errorf("of the digest of a spec: %s, want %s", got, want)
	}
	if apply.RequestDigest(tasks, nil) != "" {
		t.Error("a job without policies has a digest")
	}
}
