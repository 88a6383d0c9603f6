package turn_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/esl/turn"
	"github.com/escher-sched/escher/types"
)

// TestAging puts a task and a gang that wait long before later ones of a higher priority, up to
// the limit, and evicts none for it.
func TestAging(t *testing.T) {
	for name, gang := range map[string][]esl.Policy{"task": nil, "gang": {gang.Gang{}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, jobs := esltest.Ordered(t, 1) // of four cores
				first := esltest.Submitted(t, jobs, ofPriority(1, 1, hollow.Task(4000, "run", "20s")))
				esltest.Pass(time.Second)
				aged := append(gang, turn.Aging{Every: manifest.Duration(4 * time.Second), Limit: 3}, room.Preempt{})
				low := esltest.Submitted(t, jobs, ofPriority(0, 1, hollow.Task(4000, "run", "10s")), aged...)
				esltest.Pass(16 * time.Second) // a gang accumulates only later
				if text := esltest.TaskWhy(t, c, low.Tasks[0]); gang == nil && !strings.Contains(text, "as if its priority were 3 instead of 0") {
					t.Errorf("why: %q", text)
				}
				second := esltest.Submitted(t, jobs, ofPriority(2, 1, hollow.Task(4000, "run", "10s")))
				third := esltest.Submitted(t, jobs, ofPriority(4, 1, hollow.Task(4000, "run", "2s")))
				var bound []int64
				for _, ids := range [][]string{first.Tasks, third.Tasks, low.Tasks, second.Tasks} {
					s := esltest.Statuses(t, jobs, controlplane.UntilEnded, ids...)[0]
					if s.Attempt != 1 || s.Phase != types.Succeeded || len(bound) > 0 && s.Bound <= bound[len(bound)-1] {
						t.Errorf("%+v, after those that were bound at %v", s, bound)
					}
					bound = append(bound, s.Bound)
				}
				esltest.NothingLeft(t, c)
			})
		})
	}
}

// raised returns how far a task, or the gang of a job, is raised.
func raised(t *testing.T, c *hollow.Cluster, task, gang string) int {
	t.Helper()
	v, err := c.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r := v.Reservations[esltest.IDOf(gang)]; r != nil && r.Info.V != nil {
		return r.Info.V.Raised
	}
	of := v.Task(esltest.IDOf(task)).Info.V
	return of.Order() - of.Priority
}

// TestAgingAfterALoss restarts the wait of a task that has run for long, and whose node is lost.
func TestAgingAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 1)
		job := esltest.Submitted(t, jobs, esl.Copies(1, hollow.Task(4000)), turn.Aging{Every: manifest.Duration(time.Minute)})
		node := esltest.Statuses(t, jobs, controlplane.UntilRunning, job.Tasks...)[0].Node
		esltest.Pass(30 * time.Minute)
		if err := c.Kill(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		esltest.Pass(150 * time.Second) // including the time until the node counts as lost
		if got := raised(t, c, job.Tasks[0], ""); got < 1 || got > 2 {
			t.Errorf("raised by %d two and a half minutes after it began to wait", got)
		}
	})
}

// TestAgingBehindAGate counts the wait of successors from when nothing holds them back.
func TestAgingBehindAGate(t *testing.T) {
	for name, more := range map[string][]esl.Policy{"task": nil, "gang": {gang.Gang{}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, jobs := esltest.Ordered(t, 1)
				before := esltest.Submitted(t, jobs, esl.Copies(1, hollow.Task(500, "run", "30m")))
				full := esltest.Submitted(t, jobs, esl.Copies(1, hollow.Task(3500)))
				esltest.Statuses(t, jobs, controlplane.UntilRunning, full.Tasks...)
				aged := append(more, admission.After{Jobs: []string{before.Job}}, turn.Aging{Every: manifest.Duration(time.Minute), Limit: 20})
				job := esltest.Submitted(t, jobs, esl.Copies(1, hollow.Task(4000)), aged...)
				esltest.Pass(29 * time.Minute)
				if got := raised(t, c, job.Tasks[0], job.Job+".gang"); got != 0 {
					t.Errorf("raised by %d while it comes after what runs", got)
				}
				esltest.Statuses(t, jobs, controlplane.UntilEnded, before.Tasks...)
				esltest.Pass(150 * time.Second)
				if got := raised(t, c, job.Tasks[0], job.Job+".gang"); got != 2 && name != "gang" { // that accumulates by then
					t.Errorf("raised by %d two and a half minutes after nothing is before it", got)
				}
			})
		})
	}
}

// TestAgingIsValid names the problem.
func TestAgingIsValid(t *testing.T) {
	for want, p := range map[string]turn.Aging{"every: 1ms": {Every: manifest.Duration(time.Millisecond)}, "limit: -1": {Limit: -1}, "limit: 2000": {Limit: 2000}} {
		if err := p.Validate(); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestAgingTwice is refused: each would undo the other.
func TestAgingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, jobs := esltest.Ordered(t, 1)
		_, err := jobs.Submit(t.Context(), controlplane.Job{Name: "job", Tasks: esl.Copies(1, hollow.Task(500))},
			turn.Aging{}, turn.Aging{Every: manifest.Duration(time.Minute)})
		if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "aging is there twice") {
			t.Errorf("it was submitted: %v", err)
		}
	})
}

// ofPriority returns n tasks of a priority.
func ofPriority(priority, n int, task controlplane.Submission) []controlplane.Submission {
	task.Task.Priority = priority
	return esl.Copies(n, task)
}
