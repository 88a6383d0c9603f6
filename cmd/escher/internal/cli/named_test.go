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
	job("db-a", "db", types.Running)
	job("db-b", "db", types.Running)
	for _, task := range []string{"db-a-0", "db-a-1"} {
		put(controlplane.TaskKey("d", task), &types.Task{Job: "db-a", Name: "db", Submitted: 1, Stop: &types.Stop{}})
	}
	job("v1.5-a", "v1.5", types.Running)
	job("api-a", "api", types.Running)
	for task, x := range map[string]types.Task{"api-x.00": {Index: 0, Submitted: 20}, "api-y.00": {Index: 0, Submitted: 21}, "api-x.11": {Index: 11, Submitted: 20}} {
		x.Job, x.Name, x.Count = "api-a", "api", 12
		put(controlplane.TaskKey("d", task), &x)
	}
	client, err := controlplane.New(store, "d")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"hi": "job hi-a", "train": "job train-b", "hi2": "job hi2-a", "hi-a-1": "task hi-a-1", "old": "job old-a", "db": "job db-b",
		"api.0": "task api-y.00", "api/11": "task api-x.11", "api-a.011": "task api-x.11", "api-a/0": "task api-y.00", "api-x.1": "task api-x.11"} {
		got, err := cmdutil.Find(t.Context(), client, name, show.Describable()...)
		if err != nil || got.String() != want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
	}
	_, err = cmdutil.Find(t.Context(), client, "web", show.Describable()...)
	if want := "job web-a, job web-b"; !types.Is(err, types.Invalid) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	for name, want := range map[string]string{
		"api.7": "job api-a has no task of index 7: escher ps -a --job api-a lists its tasks", "ap.0": `"ap.0" in namespace d`, "v1.2": `"v1.2" in namespace d`, "api.x": `"api.x" in namespace d`,
		"/0": `"/0" in namespace d`, "web.0": `"web" is ambiguous`, "none.0": `"none.0" in namespace d`,
	} {
		if got, err := cmdutil.Find(t.Context(), client, name, show.Describable()...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
	}
}
