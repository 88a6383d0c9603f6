package controlplane_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// member returns a task of an index, without an id.
func member(index, count int) controlplane.Submission {
	s := one("")
	s.Task.Index, s.Task.Count = index, count
	return s
}

// stored returns a job and its revision.
func (w *world) storedJob(id string) (types.Job, int64) {
	w.t.Helper()
	kv, err := controlplane.Get(context.Background(), w.store, controlplane.JobKey("team", id))
	var j types.Job
	if err != nil || !controlplane.Read(kv, &j) {
		w.t.Fatalf("job %s cannot be read: %v", id, err)
	}
	return j, kv.ModRevision
}

func TestUpdateJob(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	if _, err := w.LaunchJob(ctx, controlplane.Job{ID: "j", Tasks: several(2)}); err != nil {
		t.Fatal(err)
	}
	j, at := w.storedJob("j")
	j.Tasks, j.Updating = 4, true
	tx := w.Begin()
	ids := tx.UpdateJob("j", j, at, member(2, 4), member(3, 4))
	w.lossy.next(lost) // an unanswered commit is checked
	if _, err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if len(ids) != 2 || !strings.HasSuffix(ids[0], ".2") || !strings.HasSuffix(ids[1], ".3") {
		t.Errorf("the ids are %q", ids)
	}
	for i, id := range ids {
		if s, err := w.Status(ctx, id); err != nil || s.Task.Job != "j" || s.Task.Index != i+2 || s.Task.Count != 4 || !s.Accepted {
			t.Errorf("%s is %+v, %v", id, s.Task, err)
		}
	}
	if is, _ := w.storedJob("j"); is.Tasks != 4 || !is.Updating {
		t.Errorf("the job is %+v", is)
	}
	// The same again is too late.
	late := w.Begin()
	late.UpdateJob("j", j, at, member(4, 5))
	w.refused(types.Conflict, func() error { _, err := late.Commit(ctx); return err }, "jobs/team/j")
	w.wantKeys(controlplane.Tasks, 4)
	// A job alone, and a wrong one.
	j, at = w.storedJob("j")
	j.Updating = false
	tx = w.Begin()
	tx.UpdateJob("j", j, at)
	if _, err := tx.Commit(ctx); err != nil {
		t.Error(err)
	}
	j.Tasks = -1
	wrong := w.Begin()
	wrong.UpdateJob("j", j, at, controlplane.Submission{})
	w.refused(types.Invalid, func() error { _, err := wrong.Commit(ctx); return err }, "tasks: -1 is out of range")
}

// joining is a store in which a task joins the job when its tasks are listed.
type joining struct {
	controlplane.Store
	join  sync.Once
	joins func()
}

func (s *joining) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	page, err := s.Store.List(ctx, opts)
	if opts.Prefix == controlplane.Prefix(controlplane.Tasks, "team") {
		s.join.Do(s.joins)
	}
	return page, err
}

// A job that gets a task while it is removed stays: the task would lose it.
func TestRemoveJobThatGetsATask(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	if _, err := w.LaunchJob(ctx, controlplane.Job{ID: "j", Tasks: several(2)}); err != nil {
		t.Fatal(err)
	}
	for _, s := range several(2) {
		w.put(controlplane.StatusKey("team", s.ID), &types.Status{Phase: types.Succeeded, Attempt: 1})
	}
	c, err := controlplane.New(&joining{Store: w.store, joins: func() {
		j, at := w.storedJob("j")
		tx := w.Begin()
		tx.UpdateJob("j", j, at, member(0, 2))
		if _, err := tx.Commit(ctx); err != nil {
			t.Error(err)
		}
	}}, "team")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.RemoveJob(ctx, "j"); !types.Is(err, types.Conflict) || !strings.Contains(err.Error(), "an update has changed the job: try again") {
		t.Errorf("got %v", err)
	}
	w.wantKeys(controlplane.Jobs, 1)
}
