package tasksocket_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
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

// TestPolicies passes the policies of a job to the library of the agent. A socket without one, a
// transaction, and a task with the rights self are refused.
func TestPolicies(t *testing.T) {
	launch := tasksocket.Launch{
		Job:   &tasksocket.Job{Name: "a", Policies: []tasksocket.Policy{{Name: "gang", With: json.RawMessage(`{"in":"rack"}`)}, {Name: "apart"}}},
		Tasks: []tasksocket.Task{{Spec: tasksocket.Spec{Image: "a:1"}}},
	}
	client := func(library *tasksocket.Library, mode types.Socket) *tasksocket.Client {
		c, err := controlplane.New(memstore.New(), "d")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "s", tasksocket.Name)
		s, err := tasksocket.Listen(tasksocket.Config{Dir: filepath.Dir(path), Client: c, Library: library, Mode: mode, Self: tasksocket.Self{Namespace: "d", Task: "me", Node: "n1"}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		asks := tasksocket.NewClient(path)
		t.Cleanup(func() {
			asks.Close()
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		return asks
	}
	var library recorded
	with := &tasksocket.Library{Submit: library.submit, Launch: library.launch}
	l, err := client(with, types.SocketNamespace).Launch(t.Context(), launch)
	want := []types.Policy{{Kind: "gang", With: `{"in":"rack"}`}, {Kind: "apart"}}
	if err != nil || l.Job != "a-1" || !reflect.DeepEqual(library.policies, want) || library.job.Name != "a" || len(library.job.Tasks) != 1 {
		t.Errorf("%v: launched %+v with %+v and %+v", err, l, library.job, library.policies)
	}
	if l, err := client(with, types.SocketNamespace).Launch(t.Context(), tasksocket.Launch{Tasks: launch.Tasks}); err != nil || l.Tasks[0] != "b-1" || len(library.job.Tasks) != 1 {
		t.Errorf("tasks alone: %+v, %v", l, err)
	}
	_, none := client(nil, types.SocketNamespace).Launch(t.Context(), launch)
	_, together := client(with, types.SocketNamespace).Commit(t.Context(), tasksocket.Transaction{Launch: []tasksocket.Launch{launch}})
	_, self := client(with, types.SocketSelf).Launch(t.Context(), launch)
	for says, err := range map[string]error{"this agent knows none": none, "launch[0].job.policies": together, "about itself alone": self} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
