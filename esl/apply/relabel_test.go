package apply_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/types"
)

// labels returns the labels of all jobs and tasks, as text, in order.
func (w *world) labels() []string {
	w.t.Helper()
	v := w.view()
	var out []string
	for _, j := range v.Jobs {
		out = append(out, "job "+types.LabelsText(j.V.Labels))
	}
	for t := range v.Tasks() {
		out = append(out, fmt.Sprintf("%d %s", t.Info.V.Index, types.LabelsText(t.Info.V.Full().Labels)))
	}
	slices.Sort(out)
	return out
}

// Labels change in place: nothing is replaced, and nothing else of a task changes.
func TestRelabel(t *testing.T) {
	const arrayed = "array: {indices: 3-4}\n"
	for name, rest := range map[string]string{"a job": "count: 2\n", "one with an update": "count: 2\nupdate: {}\n", "an array": arrayed, "one with policies": "count: 2\npolicies: [{name: slots, with: {most: 2}}]\n"} {
		file := func(labels string) string {
			return header + "kind: Job\nname: j\nlabels: " + labels + "\n" + rest + "template: {deadline: 5h, image: a, labels: {own: x}}\n"
		}
		w := newWorld(t)
		first := w.apply(file("{team: vision, stage: dev}"), apply.Options{})
		w.phase(first.Launched()[0], types.Running)
		stopped := first.Launched()[1]
		if err := w.Stop(t.Context(), stopped, controlplane.StopOptions{Reason: "by hand"}); err != nil {
			t.Fatal(err)
		}
		if d, err := w.decide(file("{team: speech}"), apply.Options{}); err != nil || d.Changes[0].Action != apply.Relabel ||
			strings.Join(d.Changes[0].Differences, "; ") != "labels.stage: dev → none; labels.team: vision → speech" || d.Blocked() != nil {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
		d := w.apply(file("{team: speech}"), apply.Options{})
		if c := d.Changes[0]; c.Action != apply.Relabel || c.ID != first.Changes[0].ID || len(d.Launched()) > 0 {
			t.Errorf("%s: it is to %s", name, c.Action)
		}
		want := []string{"0 own=x,team=speech", "1 own=x,team=speech", "job team=speech"}
		if rest == arrayed {
			want[0], want[1] = "3 own=x,team=speech", "4 own=x,team=speech"
		}
		if got := w.labels(); !slices.Equal(got, want) {
			t.Errorf("%s: there are %q, want %q", name, got, want)
		}
		if s, err := w.Status(t.Context(), stopped); err != nil || s.Task.Stop == nil || s.Task.Stop.Reason != "by hand" {
			t.Errorf("%s: %+v, %v", name, s.Task, err)
		}
		before := w.revision()
		if d := w.apply(file("{team: speech}"), apply.Options{}); d.Changes[0].Action != apply.Unchanged || w.revision() != before {
			t.Errorf("%s: again, it is to %s", name, d.Changes[0].Action)
		}
	}
}

// The labels of a task change in place too, and those of a job whose count grows.
func TestRelabelOthers(t *testing.T) {
	w := newWorld(t)
	task := header + "kind: Task\nname: t\nlabels: {team: %s}\nimage: a\n"
	w.apply(fmt.Sprintf(task, "vision"), apply.Options{})
	if d := w.apply(fmt.Sprintf(task, "speech"), apply.Options{}); d.Changes[0].Action != apply.Relabel {
		t.Errorf("it is to %s", d.Changes[0].Action)
	}
	if got := w.labels(); !slices.Equal(got, []string{"0 team=speech"}) {
		t.Errorf("there is %q", got)
	}

	w = newWorld(t)
	job := header + "kind: Job\nname: j\nlabels: {team: %s}\ncount: %d\ntemplate: {image: a}\n"
	w.apply(fmt.Sprintf(job, "vision", 1), apply.Options{})
	if d := w.apply(fmt.Sprintf(job, "speech", 2), apply.Options{}); d.Changes[0].Action != apply.Update || len(d.Launched()) != 1 {
		t.Errorf("it is to %s", d.Changes[0].Action)
	}
	if got := w.labels(); !slices.Equal(got, []string{"0 team=speech", "1 team=speech", "job team=speech"}) {
		t.Errorf("there are %q", got)
	}
}

// A stop between the read and the write of new labels is kept.
func TestRelabelWhileItIsStopped(t *testing.T) {
	w := newWorld(t)
	task := header + "kind: Task\nname: t\nlabels: {team: %s}\nimage: a\n"
	id := w.apply(fmt.Sprintf(task, "vision"), apply.Options{}).Launched()[0]
	c, err := controlplane.New(&interrupting{Store: w.store, left: 1, call: func() {
		if err := w.Stop(t.Context(), id, controlplane.StopOptions{}); err != nil {
			t.Error(err)
		}
	}}, "team")
	if err != nil {
		t.Fatal(err)
	}
	d, err := w.decide(fmt.Sprintf(task, "speech"), apply.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Perform(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if s, err := w.Status(t.Context(), id); err != nil || s.Task.Stop == nil || types.LabelsText(s.Task.Labels) != "team=speech" {
		t.Errorf("%+v, %v", s.Task, err)
	}
}

// A job that a former version has launched, whose digest has its labels, is as described.
func TestRelabelOfAFormerVersion(t *testing.T) {
	const formerDigest = "7bd16128727d6a23b382e2de4d2bd6fb"
	w := newWorld(t)
	file := header + "kind: Job\nname: j\nlabels: {team: vision}\ncount: 2\npolicies: [{name: slots, with: {most: 2}}]\ntemplate: {image: a}\n"
	id := w.apply(file, apply.Options{}).Changes[0].ID
	for of, j := range w.view().Jobs {
		job := *j.V
		job.RequestDigest = formerDigest
		tx := w.Begin()
		tx.UpdateJob(of.ID, job, j.Mod)
		if _, err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if d, err := w.decide(file, apply.Options{}); err != nil || d.Changes[0].Action != apply.Unchanged || d.Changes[0].ID != id {
		t.Errorf("it is to %s, %v", d.Changes[0].Action, err)
	}
}
