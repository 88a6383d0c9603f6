package esl_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/types"
)

// TestFollowsByName finds a job by its id or its name: the newest one that existed before. It
// refuses a missing job, and suggests similar names.
func TestFollowsByName(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(2, 8), func(s *esltest.Site) {
		s.Run("etl", esl.Copies(1, hollow.Task(100, "run", "1s", "exit", "1")))
		s.Pass(3 * time.Second)
		etl := s.Run("etl", esl.Copies(2, hollow.Task(100, "run", "30s")))
		next := s.Run("etl", esl.Copies(1, hollow.Task(100, "run", "1h")), admission.After{Jobs: []string{"etl"}})
		s.Run("etl", esl.Copies(1, hollow.Task(100, "run", "1s", "exit", "1")))
		s.Says(next.Tasks[0], "of job etl, which is running")
		s.Pass(32 * time.Second)
		if s.Node(next.Tasks[0]) == "" {
			t.Errorf("it has not begun after the job of that name: %s", s.Why(next.Tasks[0]))
		}
		_, err := s.Jobs.Submit(s.Context(), controlplane.Job{Name: "x", Tasks: esl.Copies(1, hollow.Task(100))}, admission.After{Jobs: []string{etl.Job, etl.Job[:len(etl.Job)-3]}})
		if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "policies[0] (after): jobs[1]: there is no job") || !strings.Contains(err.Error(), etl.Job) {
			t.Errorf("of a job that is not there: %v", err)
		}
		// It exists when the transaction commits.
		e, err := s.Jobs.Expand(s.Context(), controlplane.Job{Name: "b", Tasks: esl.Copies(1, hollow.Task(100))}, esl.Batch{Names: []string{"a"}}, admission.After{Jobs: []string{"a"}})
		s.Must(err)
		tx := s.Jobs.Begin()
		b := e.Add(tx)
		a := tx.LaunchJob(controlplane.Job{Name: "a", Tasks: []controlplane.Submission{hollow.Task(100, "run", "5s")}})
		_, err = tx.Commit(s.Context())
		s.Must(err)
		s.Says(b.Tasks[0], "It comes after task "+a.Tasks[0])
	})
}

// TestFollowsATask follows a task without a job, by its id or its name; for several with one name,
// the error lists the ids.
func TestFollowsATask(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(2, 8), func(s *esltest.Site) {
		alone := hollow.Task(100, "run", "30s")
		alone.Task.Name = "fetch"
		launch := func() string {
			launched, err := s.Jobs.Launch(s.Context(), alone)
			s.Must(err)
			return launched.Tasks[0]
		}
		id := launch()
		next := s.Run("next", esl.Copies(1, hollow.Task(100, "run", "1h")), admission.After{Jobs: []string{id}})
		named := s.Run("named", esl.Copies(1, hollow.Task(100, "run", "1h")), admission.After{Jobs: []string{"fetch"}})
		another := launch() // a later one
		for _, job := range []string{next.Tasks[0], named.Tasks[0]} {
			s.Says(job, "It comes after task "+id+", which is running.")
		}
		_, err := s.Jobs.Submit(s.Context(), controlplane.Job{Name: "x", Tasks: esl.Copies(1, hollow.Task(100))}, admission.After{Jobs: []string{"fetch"}})
		both := []string{id, another}
		slices.Sort(both)
		if want := `jobs[0]: "fetch" is the name of several tasks: give the id of one of ` + strings.Join(both, ", "); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), want) {
			t.Errorf("by the name of two: %v, want %q", err, want)
		}
		s.Must(s.Jobs.Stop(s.Context(), another, controlplane.StopOptions{}))
		s.Pass(32 * time.Second)
		for _, job := range []string{next.Tasks[0], named.Tasks[0]} {
			if s.Node(job) == "" {
				t.Errorf("it has not begun after the task: %s", s.Why(job))
			}
		}
	})
}
