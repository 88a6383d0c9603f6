package requests_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/submitter"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// TestUser makes the tasks that a task launches those of its user, and refuses another one.
func TestUser(t *testing.T) {
	store := submitter.Store{Store: memstore.New()}
	c, err := controlplane.New(store, "d")
	if err != nil {
		t.Fatal(err)
	}
	mine := submitter.With(t.Context(), submitter.Submitter{User: "alice"})
	if _, err := c.Launch(mine, controlplane.Submission{ID: "me", Spec: &types.Spec{Image: "a:1"}}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s", tasksocket.Name)
	asks, _ := serve(t, tasksocket.Config{Dir: filepath.Dir(path), Client: c, Self: tasksocket.Self{Namespace: "d", Task: "me", Node: "n1"}})
	launch := func(user string) error {
		l := requests.Launch{Tasks: []requests.Task{{ID: "of-" + user, Spec: requests.Spec{Image: "a:1"}}}}
		if user != "" {
			l.Tasks[0].Labels = map[string]string{submitter.Label: user}
		}
		_, err := asks.Launch(t.Context(), l)
		return err
	}
	if err := errors.Join(launch("alice"), launch("x")); !types.Is(launch("bob"), types.Denied) || err == nil {
		t.Errorf("it launches for others: %v", err)
	}
	got, err := c.Status(t.Context(), "of-alice")
	if err != nil || got.Task.User != "alice" {
		t.Errorf("it is of %q, %v", got.Task.User, err)
	}
}
