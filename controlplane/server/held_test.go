package server

import (
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// heldTests are about ended tasks of a job that continues.
func heldTests() []decideTest {
	begun := []put{member("a"), member("b"), jobOf(2, "j")}
	kept := policies("j", types.Policies{Job: "j"})
	return []decideTest{
		{
			name:  "what has ended of a job without policies goes when it is old",
			state: append(begun[:3:3], ended("a", 2*hour)),
			want:  "finished: -tasks/ns/a -status/ns/a if status/ns/a=4",
		},
		{
			name:  "with policies it stays while the job goes on",
			state: append(begun[:3:3], kept, ended("a", 2*hour)),
		},
		{
			name:  "whatever is known first",
			state: append(begun[:3:3], ended("a", 2*hour), kept),
		},
		{
			name:  "as if it ended with the last of the job",
			state: append(begun[:3:3], kept, ended("a", 2*hour), ended("b", minute)),
			want:  "its job has ended: -policies/ns/j if jobs/ns/j@3 policies/ns/j=4",
		},
		{
			name:  "while an update may add tasks, the job has not ended",
			state: []put{member("a"), member("b"), {controlplane.JobKey("ns", "j"), &types.Job{Tasks: 2, Updating: true}}, kept, ended("a", minute), ended("b", minute)},
		},
		{
			name:  "and no longer",
			state: append(begun[:3:3], kept, ended("a", 4*hour), ended("b", 2*hour)),
			want: "finished: -tasks/ns/a -status/ns/a if status/ns/a=5\n" +
				"finished: -tasks/ns/b -status/ns/b if status/ns/b=6\n" +
				"its job has ended: -policies/ns/j if jobs/ns/j@3 policies/ns/j=4",
		},
		{
			name: "it does not count among those that are too many",
			state: append(begun[:3:3], kept, ended("a", 2*hour),
				aTask("x", types.Task{}), ended("x", 10*minute), aTask("y", types.Task{}), ended("y", 10*minute)),
		},
		{
			name: "of a database that is all but full it goes", usage: controlplane.Usage{InUse: 850, Quota: 1000},
			state: append(begun[:3:3], kept, closed(), ended("a", 0)),
			want:  "finished: -tasks/ns/a -status/ns/a if status/ns/a=6",
		},
	}
}

// TestHeldIsLetGo checks that a job without policies no longer holds tasks, and that tasks that
// could not be collected are held again.
func TestHeldIsLetGo(t *testing.T) {
	x := indexOf([]put{member("a"), member("b"), jobOf(2, "j"), policies("j", types.Policies{Job: "j"}), ended("a", 2*hour)})
	at := func(usage controlplane.Usage) string {
		l := x.at(now(), DefaultPolicy())
		l.usage = usage
		steps, _ := l.decide()
		return told(steps)
	}
	x.learn(6, closed())
	const gone = "finished: -tasks/ns/a -status/ns/a if status/ns/a=5"
	if got := at(controlplane.Usage{InUse: 90, Quota: 100}); got != gone {
		t.Fatalf("decided\n%s", got)
	}
	x.find("ns", "a").requeue(x)
	if got := at(controlplane.Usage{InUse: 75, Quota: 100}); got != "" || len(x.holding) != 1 {
		t.Errorf("decided\n%s", got)
	}
	x.apply(controlplane.Event{KV: controlplane.KV{Key: controlplane.PoliciesKey("ns", "j"), ModRevision: 7}, Delete: true}, now())
	if got := at(controlplane.Usage{InUse: 75, Quota: 100}); got != gone || len(x.holding) != 0 {
		t.Errorf("decided\n%s", got)
	}
}

// TestHeldIsForgotten deletes ended tasks of a job that continues.
func TestHeldIsForgotten(t *testing.T) {
	x := indexOf([]put{policies("j", types.Policies{Job: "j"}), member("a"), member("b"), member("c"), jobOf(3, "j"), ended("a", hour), ended("b", hour)})
	for _, key := range []string{controlplane.TaskKey("ns", "a"), controlplane.StatusKey("ns", "a")} {
		x.apply(controlplane.Event{KV: controlplane.KV{Key: key, ModRevision: 8}, Delete: true}, now())
	}
	if j := x.spaces["ns"].jobs["j"]; len(j.held) != 1 || j.held[0].id != "b" || len(x.ended) != 0 {
		t.Errorf("it holds %d, and %d are listed", len(j.held), len(x.ended))
	}
}

// TestJobHasEnded checks when a job without open tasks counts as ended: not while tasks of its launch
// or of an update may be unknown.
func TestJobHasEnded(t *testing.T) {
	for _, test := range []struct {
		name  string
		job   job
		known int64
		want  bool
	}{
		{"all tasks of the launch are known", job{mod: 3, created: 3, size: 2, tasks: 2}, 2, true},
		{"one is not known", job{mod: 3, created: 3, size: 2, tasks: 1}, 2, false},
		{"one is deleted", job{mod: 3, created: 3, size: 2, tasks: 1}, 3, true},
		{"an update may have added one", job{mod: 7, created: 3, size: 2, tasks: 2}, 6, false},
		{"an update has added none", job{mod: 7, created: 3, size: 2, tasks: 2}, 7, true},
		{"an update has not finished", job{mod: 7, created: 3, size: 2, tasks: 2, updating: true}, 7, false},
		{"one is open", job{mod: 3, created: 3, size: 2, tasks: 2, open: 1}, 3, false},
	} {
		if got := test.job.ended(test.known); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}
