package controlplane_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/ids"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

func named(name string) controlplane.Submission {
	s := one("")
	s.Task.Name = name
	return s
}

// Tasks of one name launched together share their letters, and are numbered.
func TestSiblingIDs(t *testing.T) {
	w := newWorld(t)
	tasks := []controlplane.Submission{named("ps"), one("own")}
	for range 11 {
		tasks = append(tasks, named("worker"))
	}
	long := strings.Repeat("x", types.MaxName)
	tasks = append(tasks, named(long), named(long))
	got, err := w.Launch(t.Context(), tasks...)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^ps-[a-z2-7]{10}$`).MatchString(got.Tasks[0]) || got.Tasks[1] != "own" {
		t.Errorf("alone: %q", got.Tasks[:2])
	}
	siblings := strings.TrimSuffix(got.Tasks[2], "00")
	if !strings.HasSuffix(got.Job, strings.TrimPrefix(strings.TrimSuffix(siblings, "."), "worker")) {
		t.Errorf("job %s has not the letters of %s", got.Job, siblings)
	}
	for i, id := range got.Tasks[2:13] {
		if id != fmt.Sprintf("%s%02d", siblings, i) || !regexp.MustCompile(`^worker-[a-z2-7]{10}\.$`).MatchString(siblings) {
			t.Errorf("worker %d is %q", i, id)
		}
	}
	if slices.IsSorted(got.Tasks[2:13]) != true || got.Tasks[13] == got.Tasks[14] || len(got.Tasks[14]) > types.MaxName {
		t.Errorf("%q", got.Tasks)
	}
}

// A chosen job id is no source of letters: two of them may end alike.
func TestSiblingIDsIgnoreAChosenJob(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	for _, job := range []string{"a-production", "b-production"} {
		if _, err := w.LaunchJob(ctx, controlplane.Job{ID: job, Tasks: []controlplane.Submission{named("web"), named("web")}}); err != nil {
			t.Error(err)
		}
	}
	drawn := ids.New("train")
	got, err := w.LaunchJob(ctx, controlplane.Job{ID: drawn, GeneratedID: true, Tasks: []controlplane.Submission{named("train"), named("train")}})
	if err != nil || got.Tasks[0] != drawn+".0" {
		t.Errorf("%v, %v", got, err)
	}
}

// before is a store that changes a key before each commit.
type before struct {
	controlplane.Store
	commit func(n int, txn controlplane.Txn)
	n      int
}

func (s *before) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	s.n++
	s.commit(s.n, txn)
	return s.Store.Commit(ctx, txn)
}

// Two compares show that all ids of siblings are free, however many there are. If one of them
// exists, unlaunched, the client compares each.
func TestLaunchComparesSiblingsAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		// number is that of an existing sibling, "" for none.
		number  string
		kind    controlplane.Kind
		commits int
		err     types.Class
	}{
		"free":           {commits: 1},
		"another job's":  {number: "9999", kind: controlplane.Tasks, commits: 2},
		"taken":          {number: "07", kind: controlplane.Tasks, commits: 1, err: types.AlreadyExists},
		"was used":       {number: "07", kind: controlplane.Statuses, commits: 1, err: types.AlreadyExists},
		"ended, deleted": {number: "9999", kind: controlplane.Statuses, commits: 2},
	} {
		t.Run(name, func(t *testing.T) {
			mem := memstore.New()
			s := &before{Store: mem}
			s.commit = func(n int, txn controlplane.Txn) {
				var task string
				for _, op := range txn.Ops {
					if k, _ := controlplane.Parse(op.Key); k.Kind == controlplane.Tasks {
						task = k.ID
					}
				}
				if n == 1 && len(txn.Compares) > 6 { // two of them are about the namespace
					t.Errorf("%d compares", len(txn.Compares))
				}
				if n == 1 && c.number != "" {
					x := controlplane.NewChange(controlplane.NewBatch())
					id := task[:strings.LastIndexByte(task, '.')+1] + c.number
					if c.kind == controlplane.Tasks {
						x.Put(controlplane.TaskKey("team", id), &types.Task{Name: "other"})
					} else {
						x.Put(controlplane.StatusKey("team", id), &types.Status{Phase: types.Succeeded})
					}
					if _, err := mem.Commit(t.Context(), x.Txn()); err != nil {
						t.Error(err)
					}
				}
			}
			client, err := controlplane.New(s, "team")
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Launch(t.Context(), unnamed(40)...)
			if s.n != c.commits || (err != nil || c.err != 0) && !types.Is(err, c.err) {
				t.Errorf("%d commits: %v", s.n, err)
			}
		})
	}
}

// The name of siblings matches, and a shorter name does not.
func TestFirstKnowsSiblings(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	launch := func(name string, n int) {
		t.Helper()
		if _, err := w.Launch(ctx, slices.Repeat([]controlplane.Submission{named(name)}, n)...); err != nil {
			t.Fatal(err)
		}
	}
	since := w.store.Revision()
	launch("web-api", 3)
	alone := func() error {
		_, err := w.Begin().IfNoTaskSince("web", since).SetResource("x", 1000, controlplane.Where{}, controlplane.SetOptions{}).Commit(ctx)
		return err
	}
	if err := alone(); err != nil {
		t.Errorf("what is called web-api stands for web: %v", err)
	}
	launch("web", 2)
	if err := alone(); !types.Is(err, types.Conflict) {
		t.Errorf("two more came: %v", err)
	}
}

// TestArrayIDs: the ids of an array end in its indices, unless one is there twice.
func TestArrayIDs(t *testing.T) {
	c, err := controlplane.New(memstore.New(), "d")
	if err != nil {
		t.Fatal(err)
	}
	at := func(index int) controlplane.Submission {
		s := named("part")
		s.Task.Index, s.Task.Count = index, 3
		return s
	}
	for want, tasks := range map[string][]controlplane.Submission{
		"07 10 12": {at(7), at(10), at(12)},
		"0 1 2":    {at(7), at(10), at(7)},
		"4":        {at(4)},
	} {
		got, err := c.LaunchJob(t.Context(), controlplane.Job{Name: "part", Tasks: tasks})
		if err != nil {
			t.Fatal(err)
		}
		var ends []string
		for _, id := range got.Tasks {
			ends = append(ends, id[strings.LastIndexByte(id, '.')+1:])
		}
		if strings.Join(ends, " ") != want {
			t.Errorf("ids %q, want them to end in %s", got.Tasks, want)
		}
	}
}
