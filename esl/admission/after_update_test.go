package admission_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/types"
)

// changing makes the steps of updates of a job.
type changing struct {
	t    *testing.T
	c    *hollow.Cluster
	jobs *esl.Client
	id   string
}

// step writes the job after a change, with the stops and launches of a transaction. It returns the ids
// of what it launched.
func (s changing) step(change func(j *types.Job), stops []string, launches ...controlplane.Submission) []string {
	s.t.Helper()
	v, err := s.c.View(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	was := v.Jobs[cluster.ID{Namespace: "d", ID: s.id}]
	j := *was.V
	change(&j)
	tx := s.jobs.Begin()
	for _, id := range stops {
		tx.Stop(id, controlplane.StopOptions{Grace: controlplane.NoGrace})
	}
	ids := tx.UpdateJob(s.id, j, was.Mod, launches...)
	if _, err := tx.Commit(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	return ids
}

// TestAfterAnUpdate submits jobs after one whose tasks are then replaced and removed. Those that an
// update stops are no failures, and while it goes on the job has not ended.
func TestAfterAnUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 2)
		work := func(seconds string) controlplane.Submission { return esltest.Called("x", "run", seconds) }
		before := esltest.Submitted(t, jobs, []controlplane.Submission{work("20s"), work("1s"), work("1h")})
		s := changing{t, c, jobs, before.Job}
		next := esltest.Submitted(t, jobs, []controlplane.Submission{esltest.Called("y", "run", "1s")}, admission.After{Jobs: []string{before.Job}})
		waits := func(when, says string) {
			t.Helper()
			time.Sleep(5 * time.Second)
			if now, err := jobs.Status(t.Context(), next.Tasks[0]); err != nil || now.Phase() != types.Pending {
				t.Fatalf("%s: it is %s, %+v, %v", when, now.Phase(), now.Status, err)
			}
			if text := esltest.TaskWhy(t, c, next.Tasks[0]); !strings.Contains(text, says) {
				t.Errorf("%s: why: %q", when, text)
			}
		}
		same := func(*types.Job) {}
		successor := work("20s")
		successor.Task.Index, successor.Task.Count = 0, 3
		says := "It comes after job " + before.Job + ", an update of which has begun and not finished."

		s.step(func(j *types.Job) { j.Updating = true }, before.Tasks[:1])
		waits("a task is stopped", says)
		if err := jobs.Remove(t.Context(), before.Tasks[0]); err != nil {
			t.Fatal(err)
		}
		waits("it is deleted", says)
		launched := s.step(same, nil, successor)
		s.step(func(j *types.Job) { j.Updating = false }, nil)
		waits("its successor runs", " of job "+before.Job+", which is running.")
		s.step(func(j *types.Job) { j.Tasks = 2 }, before.Tasks[2:])
		waits("the last one is removed", "It comes after task "+launched[0])

		end := esltest.Statuses(t, jobs, controlplane.UntilEnded, launched[0], next.Tasks[0])
		if end[1].Phase != types.Succeeded || end[1].Started < end[0].Ended {
			t.Errorf("it did not come after the job: %+v", end)
		}
		esltest.NothingLeft(t, c)
	})
}

// TestAfterAStoppedUpdate leaves both tasks of an index: the later one counts.
func TestAfterAStoppedUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 2)
		before := esltest.Submitted(t, jobs, []controlplane.Submission{esltest.Called("x", "run", "1h")})
		s := changing{t, c, jobs, before.Job}
		next := esltest.Submitted(t, jobs, []controlplane.Submission{esltest.Called("y", "run", "1s")}, admission.After{Jobs: []string{before.Job}})
		time.Sleep(time.Second)
		successor := esltest.Called("x", "run", "10s")
		successor.Task.Count = 1
		launched := s.step(func(*types.Job) {}, before.Tasks, successor)
		end := esltest.Statuses(t, jobs, controlplane.UntilEnded, launched[0], next.Tasks[0])
		if end[1].Phase != types.Succeeded || end[1].Started < end[0].Ended {
			t.Errorf("it did not come after the job: %+v", end)
		}
	})
}
