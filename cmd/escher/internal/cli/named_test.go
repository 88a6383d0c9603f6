package cli

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/show"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// TestFindByItsName: an exact name comes before names that begin with it, and a running object
// before an ended one.
func TestFindByItsName(t *testing.T) {
	store := memstore.New(memstore.WithoutExpiry())
	put := func(key string, m types.Message) {
		t.Helper()
		if _, err := store.Commit(t.Context(), controlplane.Txn{Ops: []controlplane.Op{{Key: key, Value: types.Encode(1, m)}}}); err != nil {
			t.Fatal(err)
		}
	}
	submitted := int64(0)
	job := func(id, name string, phase types.Phase) {
		submitted++
		put(controlplane.JobKey("d", id), &types.Job{Name: name, Tasks: 2})
		for _, task := range []string{id + "-0", id + "-1"} {
			put(controlplane.TaskKey("d", task), &types.Task{Job: id, Name: name, Submitted: submitted})
			put(controlplane.StatusKey("d", task), &types.Status{Phase: phase})
		}
	}
	job("hi-a", "hi", types.Running)
	job("hi2-a", "hi2", types.Running)
	job("train-a", "train", types.Failed)
	job("train-b", "train", types.Running)
	job("old-b", "old", types.Failed)
	job("old-a", "old", types.Failed) // the last
	job("web-a", "web", types.Running)
	job("web-b", "web", types.Running)
	job("web2-a", "web2", types.Running)
	client, err := controlplane.New(store, "d")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"hi": "job hi-a", "train": "job train-b", "hi2": "job hi2-a", "hi-a-1": "task hi-a-1", "old": "job old-a"} {
		got, err := cmdutil.Find(t.Context(), client, name, show.Describable()...)
		if err != nil || got.String() != want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
	}
	_, err = cmdutil.Find(t.Context(), client, "web", show.Describable()...)
	if want := "job web-a, job web-b"; !types.Is(err, types.Invalid) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}
