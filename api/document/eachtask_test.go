package document_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// put puts a value, or deletes a key without one.
func put(t *testing.T, s *memstore.Store, key string, m types.Message) {
	t.Helper()
	op := controlplane.Op{Key: key, Delete: m == nil}
	if m != nil {
		op.Value = types.Encode(0, m)
	}
	if _, err := s.Commit(t.Context(), controlplane.Txn{Ops: []controlplane.Op{op}}); err != nil {
		t.Fatal(err)
	}
}

// filled is a store with 300 tasks of namespace team. Some have no job, no complete job or no status. There are
// statuses without a task, and a task that cannot be read.
func filled(t *testing.T) *memstore.Store {
	t.Helper()
	s := memstore.New()
	for i := range 300 {
		id, job := fmt.Sprintf("t-%04d", i), fmt.Sprintf("j-%d", i%200)
		task := &types.Task{Name: "t", Job: job}
		if i%5 == 0 {
			task.Job = ""
		}
		put(t, s, controlplane.TaskKey("team", id), task)
		if i%2 == 0 {
			put(t, s, controlplane.JobKey("team", job), &types.Job{})
		}
		if i%3 == 0 {
			put(t, s, controlplane.StatusKey("team", id), &types.Status{Phase: types.Running, Attempt: i + 1})
		}
		for n := range i % 4 { // statuses without a task
			put(t, s, controlplane.StatusKey("team", fmt.Sprintf("%s-%d", id, n)), &types.Status{Phase: types.Failed})
		}
	}
	put(t, s, controlplane.TaskKey("teams", "t-0001"), &types.Task{})
	if _, err := s.Commit(t.Context(), controlplane.Txn{Ops: []controlplane.Op{{Key: controlplane.TaskKey("team", "t-0100-x"), Value: []byte("?")}}}); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestEachTask compares parts of a listing with the whole one.
func TestEachTask(t *testing.T) {
	s := filled(t)
	client, err := controlplane.New(s, "team")
	if err != nil {
		t.Fatal(err)
	}
	all, revision, err := client.Tasks(t.Context())
	if err != nil || len(all) != 300 {
		t.Fatalf("%d tasks: %v", len(all), err)
	}
	for _, atOnce := range []int{1, 2, 7, 299, 1000} {
		for _, from := range []int{0, 1, 150, 299, 300} {
			after := ""
			if from > 0 {
				after = all[from-1].ID
			}
			n := from
			got, err := document.EachTask(t.Context(), s, "team", after, atOnce, func(x controlplane.TaskState) error {
				if want := all[n]; x.ID != want.ID || x.Accepted != want.Accepted || !reflect.DeepEqual(x.Task, want.Task) || !reflect.DeepEqual(x.Status, want.Status) {
					return fmt.Errorf("the %d. is %+v, want %+v", n, x, want)
				}
				n++
				if from == 0 && n == 100 { // it reads one revision
					put(t, s, controlplane.TaskKey("team", "t-0100-new"), &types.Task{})
					put(t, s, controlplane.StatusKey("team", "t-0101"), &types.Status{Phase: types.Failed})
				}
				return nil
			})
			if err != nil || n != 300 || from == 0 && got != revision {
				t.Errorf("%d at once from %d: %d tasks at %d, %v", atOnce, from, n, got, err)
			}
			if from == 0 { // undo
				put(t, s, controlplane.TaskKey("team", "t-0100-new"), nil)
				put(t, s, controlplane.StatusKey("team", "t-0101"), nil)
				revision = s.Revision()
			}
		}
	}
	full := errors.New("full")
	if _, err := document.EachTask(t.Context(), s, "team", "", 10, func(controlplane.TaskState) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
	for _, kind := range []controlplane.Kind{controlplane.Tasks, controlplane.Statuses, controlplane.Jobs} {
		if _, err := document.EachTask(t.Context(), &silent{s, string(kind)}, "team", "", 10, func(controlplane.TaskState) error { return nil }); !types.Is(err, types.Unavailable) {
			t.Errorf("without %s: %v", kind, err)
		}
	}
}

// silent is a store that does not answer about a kind of keys.
type silent struct {
	controlplane.Store
	kind string
}

func (s *silent) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	if strings.Contains(opts.Prefix+strings.Join(opts.Keys, " "), "/"+s.kind+"/") {
		return controlplane.Page{}, types.Errorf(types.Unavailable, "no answer")
	}
	return s.Store.List(ctx, opts)
}
