package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// task stores a task, and a status unless the phase is empty.
func (w *world) task(id string, phase types.Phase, attempt int) {
	w.t.Helper()
	w.put(controlplane.TaskKey("team", id), &types.Task{Name: "web"})
	if phase != "" {
		w.status(id, phase, attempt)
	}
}

func (w *world) status(id string, phase types.Phase, attempt int) int64 {
	w.t.Helper()
	return w.put(controlplane.StatusKey("team", id), &types.Status{Phase: phase, Attempt: attempt, Node: "n1"})
}

func TestResolve(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"web-1", "web-10", "web-2", "db-7"} {
		w.task(id, "", 0)
	}
	w.put(controlplane.TaskKey("teammate", "zebra-1"), &types.Task{})
	for prefix, want := range map[string]string{"db": "db-7", "d": "d" + "b-7", "web-2": "web-2", "web-1": "web-1", "web-10": "web-10"} {
		if got, err := w.Resolve(t.Context(), prefix); got != want || err != nil {
			t.Errorf("%s: %s, %v", prefix, got, err)
		}
	}
	for prefix, says := range map[string]string{
		"web-":   `"web-" is ambiguous in namespace team: write more of the name of one of web-1, web-10, web-2`,
		"web-77": `no task "web-77" in namespace team: did you mean web-1 or web-10 or web-2?`,
		"zebra":  `no task "zebra" in namespace team: list all tasks`,
		"dc":     `did you mean db-7?`,
		"":       "is not an id", "a/b": "is not an id", "a b": "is not an id",
	} {
		class := types.Invalid
		if prefix == "zebra" || prefix == "web-77" || prefix == "dc" {
			class = types.NotFound
		}
		w.refused(class, func() error {
			_, err := w.Resolve(t.Context(), prefix)
			return err
		}, says)
	}
}

// TestResolveKinds resolves ids of other kinds.
func TestResolveKinds(t *testing.T) {
	w := newWorld(t)
	w.put(controlplane.NodeKey("rack-1"), &types.Node{})
	w.put(controlplane.JobKey("team", "train-abc"), &types.Job{})
	w.put(controlplane.ReservationKey("team", "train"), &types.Reservation{})
	w.put(controlplane.ReservationKey("team", "train-2"), &types.Reservation{})
	for prefix, test := range map[string]struct {
		kind controlplane.Kind
		want string
	}{"r": {controlplane.Nodes, "rack-1"}, "tr": {controlplane.Jobs, "train-abc"}, "train": {controlplane.Reservations, "train"}} {
		if got, err := w.ResolveKind(t.Context(), test.kind, prefix); got != test.want || err != nil {
			t.Errorf("%s %s: %s, %v", test.kind, prefix, got, err)
		}
	}
	w.refused(types.NotFound, func() error {
		_, err := w.ResolveKind(t.Context(), controlplane.Nodes, "rock-1")
		return err
	}, `there is no node "rock-1": did you mean rack-1?`)
	if ids, err := w.IDs(t.Context(), controlplane.Reservations, "train", 1); err != nil || len(ids) != 1 {
		t.Errorf("ids: %v, %v", ids, err)
	}
}

func TestStatusAndTasks(t *testing.T) {
	w := newWorld(t)
	w.task("a-1", "", 0)
	w.task("b-1", types.Running, 2)
	w.put(controlplane.TaskKey("team", "c-1"), &types.Task{Job: "j-1"})
	w.put(controlplane.TaskKey("team", "d-1"), &types.Task{Job: "j-2"})
	w.put(controlplane.JobKey("team", "j-2"), &types.Job{})
	w.status("stray-1", types.Running, 1)
	w.put(controlplane.TaskKey("other", "e-1"), &types.Task{})
	all, revision, err := w.Tasks(t.Context())
	if err != nil || len(all) != 4 || revision != w.store.Revision() {
		t.Fatalf("%+v, %d, %v", all, revision, err)
	}
	for i, want := range []struct {
		id       string
		phase    types.Phase
		attempt  int
		accepted bool
	}{{"a-1", types.Pending, 0, true}, {"b-1", types.Running, 2, true}, {"c-1", types.Pending, 0, false}, {"d-1", types.Pending, 0, true}} {
		one, err := w.Status(t.Context(), want.id[:1])
		if err != nil {
			t.Error(err)
		}
		for _, got := range []controlplane.TaskState{all[i], one} {
			if got.ID != want.id || got.Phase() != want.phase || got.Attempt() != want.attempt || got.Accepted != want.accepted || got.Task == nil {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
	}
	w.refused(types.NotFound, func() error { _, err := w.Status(t.Context(), "zz"); return err }, `no task "zz"`)
}

func TestStop(t *testing.T) {
	w := newWorld(t)
	w.task("web-1", types.Running, 1)
	w.task("over-1", types.Failed, 1)
	stop := func(id string, grace int64) error {
		return w.Stop(t.Context(), id, controlplane.StopOptions{Reason: "by test", Grace: 5})
	}
	if err := stop("web", 5); err != nil {
		t.Fatal(err)
	}
	var task types.Task
	if w.get(controlplane.TaskKey("team", "web-1"), &task); task.Stop == nil || *task.Stop != (types.Stop{Reason: "by test", Grace: 5}) || task.Name != "web" {
		t.Errorf("%+v", task)
	}
	before := w.store.Revision()
	for _, id := range []string{"web-1", "over-1"} {
		if err := stop(id, 1); err != nil || w.store.Revision() != before {
			t.Errorf("%s: %v; it is written at %d", id, err, w.store.Revision())
		}
	}
	w.refused(types.NotFound, func() error { return stop("none", 1) })
	w.refused(types.Invalid, func() error { return w.Stop(t.Context(), "web", controlplane.StopOptions{Grace: -1}) }, "grace: ")
}

// TestStopSooner checks that the shortest grace of several stops applies, and that a stop without a
// grace means that of the spec.
func TestStopSooner(t *testing.T) {
	w := newWorld(t)
	if _, err := w.Launch(t.Context(), controlplane.Submission{ID: "web-1", Spec: &types.Spec{Image: "i", Grace: 7 * time.Second}}); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct{ grace, want time.Duration }{
		{0, 0}, {8 * time.Second, 0}, {7 * time.Second, 0}, {6 * time.Second, 6 * time.Second}, {0, 6 * time.Second},
		{7 * time.Second, 6 * time.Second}, {time.Second, time.Second}, {controlplane.NoGrace, controlplane.NoGrace}, {time.Second, controlplane.NoGrace},
	} {
		if err := w.Stop(t.Context(), "web-1", controlplane.StopOptions{Reason: c.grace.String(), Grace: c.grace}); err != nil {
			t.Fatal(err)
		}
		var task types.Task
		if w.get(controlplane.TaskKey("team", "web-1"), &task); task.Stop.Grace != c.want || task.Stop.Reason != c.want.String() {
			t.Errorf("stop %d: %+v, want %s", i, task.Stop, c.want)
		}
	}
}

// TestStopAfterEviction checks that a stop of an evicted task does not extend its grace.
func TestStopAfterEviction(t *testing.T) {
	for _, c := range []struct{ evicted, asked, want time.Duration }{
		{time.Second, 0, time.Second}, {time.Second, 2 * time.Second, time.Second}, {3 * time.Second, 2 * time.Second, 2 * time.Second},
		{0, 0, 0}, {0, time.Minute, 0}, {0, 2 * time.Second, 2 * time.Second},
	} {
		w := newWorld(t)
		w.task("web-1", types.Running, 3)
		var task types.Task
		w.get(controlplane.TaskKey("team", "web-1"), &task)
		task.Evict, task.EvictGrace = 3, c.evicted
		w.put(controlplane.TaskKey("team", "web-1"), &task)
		if err := w.Stop(t.Context(), "web", controlplane.StopOptions{Reason: "x", Grace: c.asked}); err != nil {
			t.Fatal(err)
		}
		if w.get(controlplane.TaskKey("team", "web-1"), &task); task.Stop == nil || task.Stop.Grace != c.want || task.Stop.Reason != "x" || task.Stop.Evicted {
			t.Errorf("evicted with %s, stopped with %s: %+v, want %s", c.evicted, c.asked, task.Stop, c.want)
		}
	}
}

func TestEvict(t *testing.T) {
	w := newWorld(t)
	w.task("web-1", types.Running, 3)
	w.task("wait-1", "", 0)
	if err := w.Evict(t.Context(), "web", 0); err != nil {
		t.Fatal(err)
	}
	var task types.Task
	if w.get(controlplane.TaskKey("team", "web-1"), &task); task.Evict != 3 {
		t.Errorf("%+v", task)
	}
	before := w.store.Revision()
	for _, attempt := range []int{0, 3} {
		if err := w.Evict(t.Context(), "web", attempt); err != nil || w.store.Revision() != before {
			t.Errorf("attempt %d: %v", attempt, err)
		}
	}
	w.refused(types.Precondition, func() error { return w.Evict(t.Context(), "web", 2) }, "it is running, at attempt 3")
	w.refused(types.Precondition, func() error { return w.Evict(t.Context(), "wait", 0) }, "it is pending, at attempt 0")
	w.refused(types.Invalid, func() error { return w.Evict(t.Context(), "web", -1) }, "attempt: -1")
}

// A new draft of an eviction stays with the same attempt.
func TestStopAndEvictUnderChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.task("web-1", types.Running, 1)
		w.lossy.before = func(n int) {
			if n == 1 {
				w.put(controlplane.TaskKey("team", "web-1"), &types.Task{Name: "changed"})
				w.status("web-1", types.Bound, 2)
			}
		}
		if err := w.Evict(t.Context(), "web-1", 0); !types.Is(err, types.Precondition) {
			t.Errorf("got %v", err)
		}
		w.lossy.commits()
		w.lossy.before = func(n int) {
			if n == 1 {
				w.put(controlplane.TaskKey("team", "web-1"), &types.Task{Name: "changed", Evict: 2})
			}
		}
		w.lossy.next(answered, late, forgotten)
		if err := w.Stop(t.Context(), "web-1", controlplane.StopOptions{}); err != nil {
			t.Error(err)
		}
		var task types.Task
		if w.get(controlplane.TaskKey("team", "web-1"), &task); task.Stop == nil || task.Evict != 2 || task.Name != "changed" {
			t.Errorf("%+v", task)
		}
	})
}

// TestEachTask checks that tasks come with their statuses, that statuses without a task are
// skipped, and that any error ends the call.
func TestEachTask(t *testing.T) {
	w := newWorld(t)
	w.status("a-none", types.Running, 1)
	for i := range 2500 {
		id := fmt.Sprintf("t-%04d", i)
		w.put(controlplane.TaskKey("team", id), &types.Task{Job: "j"})
		if i%3 == 0 {
			w.status(id, types.Running, i+1)
		}
		if i%7 == 0 {
			w.status(id+"-gone", types.Failed, 1)
		}
	}
	revision := w.store.Revision()
	n := 0
	got, err := w.EachTask(t.Context(), func(s controlplane.TaskState) error {
		w.task("later-"+s.ID, "", 0) // EachTask reads one revision
		if want := fmt.Sprintf("t-%04d", n); s.ID != want || s.Accepted || n%3 == 0 && s.Attempt() != n+1 || n%3 != 0 && s.Status != nil {
			return fmt.Errorf("the %d. is %+v", n, s)
		}
		n++
		return nil
	})
	if err != nil || n != 2500 || got != revision {
		t.Errorf("%d tasks at %d, %v; want 2500 at %d", n, got, err, revision)
	}
	stop := errors.New("enough")
	if _, err := w.EachTask(t.Context(), func(controlplane.TaskState) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
	for _, kind := range []controlplane.Kind{controlplane.Jobs, controlplane.Tasks, controlplane.Statuses} {
		c, err := controlplane.New(&unlisted{w.store, controlplane.Prefix(kind)}, "team")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.EachTask(t.Context(), func(controlplane.TaskState) error { return nil }); !types.Is(err, types.Unavailable) {
			t.Errorf("without %s: %v", kind, err)
		}
	}
}

// unlisted is a store with a range that cannot be read.
type unlisted struct {
	controlplane.Store
	prefix string
}

func (s *unlisted) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	if strings.HasPrefix(opts.Prefix, s.prefix) {
		return controlplane.Page{}, types.Errorf(types.Unavailable, "no answer")
	}
	return s.Store.List(ctx, opts)
}
