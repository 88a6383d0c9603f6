package apply_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/types"
)

// ring is a job whose tasks know each other.
func ring(image, update string) string {
	return header + "kind: Job\nname: ring\ncount: 2\nupdate: " + update + "\ntemplate: {spec: {image: " + image + ", peers: whole, ports: [{name: peer}]}}\n"
}

// Tasks that know each other end together, before their successors start.
func TestUpdateOfAWholeJob(t *testing.T) {
	rollIn(t, func(t *testing.T, w *rolled) {
		w.blocked(ring("a", "{order: start-first}"), apply.Options{}, types.Invalid, "update.order: start-first: the tasks of a job with peers, or with policies that are not of placement alone, are replaced together")
		w.blocked(ring("a", "{atOnce: 2}"), apply.Options{}, types.Invalid, "update.atOnce: 2: the tasks of a job with")
		since := w.started(ring("a", "{}"))
		w.blocked(ring("b", "{}"), apply.Options{}, types.Precondition, "allow replacing to stop it and launch the new one")
		if _, err := w.again(t.Context(), w.Client, ring("b", "{timeout: 1m}")); err != nil {
			t.Fatal(err)
		}
		w.keeps(since, "no more than two are held", atMostTwo)
		tasks, _, err := w.Tasks(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		healthy := 0
		for i := range tasks {
			if s := tasks[i].Status; s != nil && s.Phase == types.Running && s.Health == types.Healthy {
				healthy++
			}
		}
		if healthy != 2 {
			t.Errorf("%d are healthy at the end", healthy)
		}
		// A count that changes replaces all of it too.
		d, err := w.decide(strings.Replace(ring("b", "{}"), "count: 2", "count: 3", 1), apply.Options{Replace: true})
		if err != nil || d.Changes[0].Action != apply.Replace {
			t.Errorf("a larger one is to %s, %v", d.Changes[0].Action, err)
		}
		for image, says := range map[string]string{"crash": "has failed with exit code 3", "ill": "2 of its 2 tasks are not ready after 1m0s"} {
			if _, err := w.again(t.Context(), w.Client, ring("c", "{}")); err != nil {
				t.Fatal(err)
			}
			w.pass(5 * time.Second)
			_, err := w.again(t.Context(), w.Client, ring(image, "{timeout: 1m}"))
			if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "to go back, apply the former file") {
				t.Errorf("%s: %v", image, err)
			}
		}
	})
}

// A client that ends after it has stopped the tasks leaves a job that another apply launches again.
func TestUpdateOfAWholeJobGoesOnAfterACrash(t *testing.T) {
	rollIn(t, func(t *testing.T, w *rolled) {
		w.started(ring("a", "{}"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c, err := controlplane.New(&crashing{Store: w.store, left: 2, end: cancel}, "team")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.again(ctx, c, ring("b", "{}")); err == nil {
			t.Fatal("the client did not end")
		}
		w.pass(5 * time.Second)
		d := w.apply(ring("b", "{}"), apply.Options{})
		want(t, d, apply.Launch)
		if _, err := w.Wait(t.Context(), controlplane.UntilHealthy, d.Launched()...); err != nil {
			t.Error(err)
		}
	})
}

// An array gets further indices, also once it has ended; any other difference replaces it.
func TestArrayGetsFurtherIndices(t *testing.T) {
	file := func(indices, image string) string {
		return header + "kind: Job\nname: sweep\narray: {indices: \"" + indices + "\"}\ntemplate: {spec: {image: " + image + "}}\n"
	}
	w := newWorld(t)
	ids := w.apply(file("0-4:2", "a"), apply.Options{}).Launched()
	w.phase(ids[0], types.Running)
	d := w.apply(file("0-4:2,1,7", "a"), apply.Options{})
	if want(t, d, apply.Update); d.Changes[0].InPlace.Adds != "1,7" || len(d.Launched()) != 2 {
		t.Errorf("it adds %s", d.Changes[0].InPlace.Adds)
	}
	want(t, w.apply(file("0-4:2,1,7", "a"), apply.Options{}), apply.Unchanged)
	for _, different := range []string{file("0-2,7", "a"), file("0-2,4,7", "b"), file("0-4:2,1,8", "a")} {
		w.blocked(different, apply.Options{}, types.Precondition, "differs and has not ended")
	}
	all, _, err := w.Tasks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		w.phase(one.ID, types.Succeeded)
	}
	d = w.apply(file("0-4:2,1,7-9", "a"), apply.Options{})
	if want(t, d, apply.Update); d.Changes[0].InPlace.Adds != "8-9" {
		t.Errorf("it adds %s", d.Changes[0].InPlace.Adds)
	}
	// Once some are forgotten, it is not known which of them were there.
	if err := w.Remove(t.Context(), ids[1]); err != nil {
		t.Fatal(err)
	}
	w.blocked(file("0-4:2,1,7-11", "a"), apply.Options{}, types.Precondition, "differs and has not ended")
}

// Listed tasks are compared by their place in the list.
func TestUpdateOfListedTasks(t *testing.T) {
	file := func(second, more string) string {
		return header + "kind: Job\nname: pair\nupdate: " + startFirst + "\ntasks:\n- {name: ps, spec: {image: a}}\n- {name: worker, spec: {image: " + second + "}}\n" + more
	}
	rollIn(t, func(t *testing.T, w *rolled) {
		w.started(file("a", ""))
		told, err := w.again(t.Context(), w.Client, file("b", ""))
		if err != nil || len(told) != 1 || !strings.Contains(told[0], "replaced worker-") {
			t.Errorf("it says %q, %v", told, err)
		}
		told, err = w.again(t.Context(), w.Client, file("b", "- {name: eval, spec: {image: c}}\n"))
		if err != nil || len(told) != 1 || !strings.Contains(told[0], "added eval-") {
			t.Errorf("it says %q, %v", told, err)
		}
		w.pass(5 * time.Second)
		w.runs(file("b", "- {name: eval, spec: {image: c}}\n"), "0 a running", "1 b running", "2 c running")
	})
}

// A large job changes in several transactions, and goes on after each of them.
func TestUpdateOfManyTasks(t *testing.T) {
	many := strings.Replace(train, "count: 3", "count: 300", 1)
	w := newWorld(t)
	w.apply(strings.Replace(train, "count: 3", "count: 100", 1), apply.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, err := controlplane.New(&crashing{Store: w.store, left: 4, after: true, end: cancel}, "team")
	if err != nil {
		t.Fatal(err)
	}
	d, err := w.decide(many, apply.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Perform(ctx, c); err == nil {
		t.Fatal("the client did not end")
	}
	d = w.apply(many, apply.Options{})
	if n := len(d.Launched()); n == 0 || n >= 200 {
		t.Errorf("then %d are added", n)
	}
	want(t, w.apply(many, apply.Options{}), apply.Unchanged)
	if tasks, _, err := w.Tasks(t.Context()); err != nil || len(tasks) != 300 {
		t.Errorf("there are %d tasks, %v", len(tasks), err)
	}
}

// An override changes the fields that it has, of every job.
func TestOverride(t *testing.T) {
	parse := func(text string) []manifest.Document {
		docs, err := manifest.Parse("f", []byte(text), known())
		if err != nil {
			t.Fatal(err)
		}
		return docs
	}
	now := time.Unix(1000, 0)
	docs := parse(header + "kind: Job\nname: a\nupdate: {atOnce: 3, healthy: 1s, timeout: 1m}\ntemplate: {image: a}\n---\n" +
		header + "kind: Job\nname: b\ntemplate: {image: b}\n---\n" + header + "kind: Task\nname: c\nimage: c\n")
	if err := apply.Override(docs, manifest.Update{AtOnce: 2, Order: manifest.StartFirst}, now); err != nil {
		t.Fatal(err)
	}
	second, minute := types.Duration(time.Second), types.Duration(time.Minute)
	if got, want := *docs[0].Job.Update, (manifest.Update{AtOnce: 2, Order: manifest.StartFirst, Healthy: second, Timeout: minute}); got != want {
		t.Errorf("a: %+v, want %+v", got, want)
	}
	if got, want := *docs[1].Job.Update, (manifest.Update{AtOnce: 2, Order: manifest.StartFirst}); got != want {
		t.Errorf("b: %+v, want %+v", got, want)
	}
	together := ring("a", "{}")
	for _, u := range []manifest.Update{{Order: manifest.StopFirst}, {Healthy: second}} {
		if err := apply.Override(parse(together), u, now); err != nil {
			t.Errorf("%+v: %v", u, err)
		}
	}
	for says, u := range map[string]manifest.Update{"order: job ring: ": {Order: manifest.StartFirst}, "at-once: job ring: ": {AtOnce: 1}} {
		if err := apply.Override(parse(together), u, now); !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%+v: %v", u, err)
		}
	}
}
