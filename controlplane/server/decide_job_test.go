package server

import (
	"fmt"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// ofJob is a resource owned by job j.
func ofJob() put { return resource("*", types.Resource{Lifetime: types.OfJob, Owner: "j"}) }

// member is a task of job j.
func member(id string) put { return aTask(id, types.Task{Job: "j"}) }

// jobTests are about dependents of jobs.
func jobTests() []decideTest {
	return []decideTest{
		{
			name:  "what is of a job stays while one of its tasks has not ended",
			state: []put{member("a"), member("b"), jobOf(2, "j"), ofJob(), reservation("r", types.Reservation{Job: "j"}), policies("j", types.Policies{Job: "j"}), alive("n1"), provided("n1", types.Provided{Job: "j", NodeSession: 7}), ended("a", 0)},
		},
		{
			name:  "and goes when all have, at once",
			state: []put{member("a"), member("b"), jobOf(2, "j"), ofJob(), reservation("r", types.Reservation{Job: "j"}), policies("j", types.Policies{Job: "j"}), alive("n1"), provided("n1", types.Provided{Job: "j", NodeSession: 7}), ended("a", 0), status("b", types.Status{Phase: types.Cancelled, Ended: ago(0)})},
			want: "its job has ended: -policies/ns/j if jobs/ns/j@3 policies/ns/j=6\n" +
				"its job has ended: -provided/ns/p/n1 if jobs/ns/j@3 provided/ns/p/n1=8\n" +
				"its job has ended: -reservations/ns/r if jobs/ns/j@3 reservations/ns/r=5\n" +
				"its job has ended: -resources/ns/r/* if jobs/ns/j@3 resources/ns/r/*=4",
		},
		{
			name:  "or when the job is gone",
			state: []put{ofJob(), reservation("r", types.Reservation{Job: "j"}), policies("j", types.Policies{Job: "j"})},
			want: "its job has ended: -policies/ns/j if jobs/ns/j=0 policies/ns/j=3\n" +
				"its job has ended: -reservations/ns/r if jobs/ns/j=0 reservations/ns/r=2\n" +
				"its job has ended: -resources/ns/r/* if jobs/ns/j=0 resources/ns/r/*=1",
		},
		{
			name:  "a job with some tasks deleted already and the others ended",
			state: []put{member("a"), jobOf(3, "j"), ofJob(), ended("a", 0)},
			want:  "its job has ended: -resources/ns/r/* if jobs/ns/j@2 resources/ns/r/*=3",
		},
		{
			name:  "a task without a status has not ended",
			state: []put{member("a"), jobOf(1, "j"), ofJob()},
		},
		{
			name:  "nor one that waits for its next attempt",
			state: []put{member("a"), jobOf(1, "j"), ofJob(), status("a", types.Status{Phase: types.Pending, Attempt: 2})},
		},
		{
			name:  "tasks of another job count for that one",
			state: []put{member("a"), jobOf(1, "j"), aTask("b", types.Task{Job: "k"}), jobOf(1, "k"), ofJob(), ended("a", 0)},
			want:  "its job has ended: -resources/ns/r/* if jobs/ns/j@2 resources/ns/r/*=5",
		},
		{
			name: "what has two owners goes with the first that ends",
			state: []put{
				aSession("s"), member("a"), jobOf(1, "j"), aTask("b", types.Task{Job: "k"}), jobOf(1, "k"), ended("a", 0),
				reservation("a", types.Reservation{Session: "s", Job: "j"}), reservation("b", types.Reservation{Session: "t", Job: "k"}), reservation("c", types.Reservation{Session: "s", Job: "k"}),
			},
			want: "its job has ended: -reservations/ns/a if jobs/ns/j@3 reservations/ns/a=7\n" +
				"its session ended: -reservations/ns/b if reservations/ns/b=8 sessions/ns/t=0",
		},
		{
			name:  "policies that jobs share end with a session",
			state: []put{policies("q", types.Policies{Session: "s"}), policies("r", types.Policies{Session: "t"}), policies("s", types.Policies{}), aSession("t")},
			want:  "its session ended: -policies/ns/q if policies/ns/q=1 sessions/ns/s=0",
		},
		{
			name: "what is of a policy that jobs share stays while that is there",
			state: []put{
				policies("q", types.Policies{}), resource("*", types.Resource{Lifetime: types.OfPolicy, Owner: "q"}), reservation("r", types.Reservation{Policy: "q"}),
				resource("+", types.Resource{Lifetime: types.OfPolicy, Owner: "p"}), reservation("s", types.Reservation{Policy: "p"}),
			},
			want: "its policy was withdrawn: -reservations/ns/s if policies/ns/p=0 reservations/ns/s=5\n" +
				"its policy was withdrawn: -resources/ns/r/+ if policies/ns/p=0 resources/ns/r/+=4",
		},
		{
			name:  "what an ended task left under no name of its job stays",
			state: []put{alive("n1"), provided("n1", types.Provided{NodeSession: 1, Task: "a"})},
		},
	}
}

// TestJobsMayBeKnownBeforeTheirTasks checks jobs known before their tasks, because each kind of key
// is followed by itself. A job without open tasks has ended only if all of its tasks must be known.
func TestJobsMayBeKnownBeforeTheirTasks(t *testing.T) {
	x := indexOf([]put{jobOf(2, "j"), ofJob()})
	at := func(tasks int64) string {
		l := x.at(now(), DefaultPolicy())
		l.tasks, l.revision = tasks, 0
		steps, _ := l.decide()
		return told(steps)
	}
	if got := at(0); got != "" {
		t.Errorf("no task is known: decided\n%s", got)
	}
	x.learn(1, member("a"))
	x.learn(3, ended("a", 0))
	if got := at(0); got != "" {
		t.Errorf("one of two tasks is known: decided\n%s", got)
	}
	x.learn(1, member("b"))
	if got := at(1); got != "" {
		t.Errorf("one has not ended: decided\n%s", got)
	}
	x.learn(4, ended("b", 0))
	if got, want := at(0), "its job has ended: -resources/ns/r/* if jobs/ns/j@1 resources/ns/r/*=2"; got != want {
		t.Errorf("all have ended: decided\n%s\nwant\n%s", got, want)
	}
	if got := at(9); got != "" {
		t.Errorf("decided again\n%s", got)
	}
	// The missing task came before the job and is deleted: only the revision of the tasks shows
	// that.
	x = indexOf([]put{member("a"), ended("a", 0), jobOf(2, "j"), ofJob()})
	for known, want := range []string{"", "", "", "its job has ended: -resources/ns/r/* if jobs/ns/j@3 resources/ns/r/*=4"} {
		if got := at(int64(known)); got != want {
			t.Errorf("tasks known up to %d: decided\n%s\nwant\n%s", known, got, want)
		}
	}
}

// TestJobsAreNotScanned checks that dependents of a job are considered when its last task ends, not
// at each end.
func TestJobsAreNotScanned(t *testing.T) {
	const tasks = 10_000
	x := newIndex()
	for i := range tasks {
		x.learn(1, member(fmt.Sprintf("t%d", i)))
	}
	x.learn(1, jobOf(tasks, "j"))
	x.learn(2, ofJob())
	x.at(now(), DefaultPolicy()).decide()
	for i := range tasks {
		if len(x.touched) > 0 {
			t.Fatalf("it is looked at when %d of %d have ended", i, tasks)
		}
		x.learn(int64(3+i), ended(fmt.Sprintf("t%d", i), 0))
	}
	if steps, _ := x.at(now(), DefaultPolicy()).decide(); len(steps) != 1 {
		t.Errorf("decided\n%s", told(steps))
	}
	// The later deletion of its tasks changes nothing.
	x.learn(2, ofJob())
	x.at(now(), DefaultPolicy()).decide()
	for i := range 100 {
		x.apply(controlplane.Event{KV: controlplane.KV{Key: controlplane.TaskKey("ns", fmt.Sprintf("t%d", i)), ModRevision: 20_000}, Delete: true}, now())
	}
	if j := x.spaces["ns"].jobs["j"]; j.open != 0 || j.tasks != tasks-100 {
		t.Errorf("%d of %d tasks are open", j.open, j.tasks)
	}
}
