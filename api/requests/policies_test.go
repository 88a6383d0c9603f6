package requests_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// recorded is a library that records what it is given.
type recorded struct {
	job      controlplane.Job
	policies []types.Policy
}

func (r *recorded) launch(_ context.Context, _ *controlplane.Client, tasks ...controlplane.Submission) (controlplane.Launched, error) {
	r.job, r.policies = controlplane.Job{Tasks: tasks}, nil
	return controlplane.Launched{Tasks: []string{"b-1"}}, nil
}

func (r *recorded) submit(_ context.Context, _ *controlplane.Client, job controlplane.Job, policies []types.Policy) (controlplane.Launched, error) {
	r.job, r.policies = job, policies
	return controlplane.Launched{Job: "a-1", Tasks: []string{"a-1.0"}}, nil
}

// TestPolicies passes the policies of a job to the library. A client without one, a transaction, and a task
// with the rights self are refused.
func TestPolicies(t *testing.T) {
	launch := requests.Launch{
		Job:   &requests.Job{Name: "a", Policies: []requests.Policy{{Name: "gang", With: json.RawMessage(`{"in":"rack"}`)}, {Name: "apart"}}},
		Tasks: []requests.Task{{Spec: requests.Spec{Image: "a:1"}}},
	}
	c, err := controlplane.New(memstore.New(), "d")
	if err != nil {
		t.Fatal(err)
	}
	var library recorded
	with := requests.Direct{Client: c, Now: time.Now, Library: &requests.Library{Submit: library.submit, Launch: library.launch}}
	l, err := with.Launch(t.Context(), launch)
	want := []types.Policy{{Kind: "gang", With: `{"in":"rack"}`}, {Kind: "apart"}}
	if err != nil || l.Job != "a-1" || !reflect.DeepEqual(library.policies, want) || library.job.Name != "a" || len(library.job.Tasks) != 1 {
		t.Errorf("%v: launched %+v with %+v and %+v", err, l, library.job, library.policies)
	}
	if l, err := with.Launch(t.Context(), requests.Launch{Tasks: launch.Tasks}); err != nil || l.Tasks[0] != "b-1" || len(library.job.Tasks) != 1 {
		t.Errorf("tasks alone: %+v, %v", l, err)
	}
	_, none := requests.Direct{Client: c, Now: time.Now}.Launch(t.Context(), launch)
	_, together := with.Commit(t.Context(), requests.Transaction{Launch: []requests.Launch{launch}})
	for says, err := range map[string]error{"this client knows none": none, "launch[0].job.policies": together} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// TestPoliciesBySocket launches a gang by the socket of a task: the socket knows the built-in policies.
func TestPoliciesBySocket(t *testing.T) {
	b := newBench(t)
	cpu := types.NewRequests(map[string]types.Quantity{"cpu": 100})
	l, err := b.client.Launch(t.Context(), requests.Launch{
		Job:   &requests.Job{Name: "a", Policies: []requests.Policy{{Name: "gang"}}},
		Tasks: []requests.Task{{Requests: cpu, Spec: requests.Spec{Image: "a:1"}}, {Requests: cpu, Spec: requests.Spec{Image: "a:1"}}},
	})
	if err != nil || l.Job == "" || len(l.Tasks) != 2 {
		t.Fatalf("%+v, %v", l, err)
	}
	kv, err := controlplane.Get(t.Context(), b.store, controlplane.PoliciesKey("d", l.Job))
	var stored types.Policies
	if err != nil || !controlplane.Read(kv, &stored) || len(stored.Policies) != 1 || stored.Policies[0].Kind != "gang" {
		t.Errorf("%+v, %v", stored, err)
	}
	_, err = b.client.Launch(t.Context(), requests.Launch{
		Job: &requests.Job{Policies: []requests.Policy{{Name: "nonsense"}}}, Tasks: []requests.Task{{Spec: requests.Spec{Image: "a:1"}}},
	})
	if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "nonsense") {
		t.Error(err)
	}
}
