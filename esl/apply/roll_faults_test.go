package apply_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/types"
)

// errCrash ends a client.
var errCrash = errors.New("crash")

// crashing is a store whose client ends at a commit, before or after it takes effect.
type crashing struct {
	controlplane.Store
	left  int
	after bool
	end   context.CancelFunc
}

func (s *crashing) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	if s.left--; s.left > 0 {
		return s.Store.Commit(ctx, txn)
	}
	if s.left == 0 && s.after {
		if _, err := s.Store.Commit(ctx, txn); err != nil {
			return controlplane.Result{}, err
		}
	}
	s.end()
	return controlplane.Result{}, types.Errorf(types.Unavailable, "%w", errCrash)
}

// A client that ends at any of its writes leaves what another apply finishes, and what the former file
// undoes.
func TestUpdateGoesOnAfterACrash(t *testing.T) {
	for update, holds := range map[string]func(moment) bool{startFirst: atLeastTwo, stopFirst: atMostTwo} {
		for _, target := range []string{"b", "a"} {
			writes := 0
			for done := false; !done; writes++ {
				for _, after := range []bool{false, true} {
					rollIn(t, func(t *testing.T, w *rolled) {
						since := w.started(service("a", update))
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						store := &crashing{Store: w.store, left: writes + 1, after: after, end: cancel}
						c, err := controlplane.New(store, "team")
						if err != nil {
							t.Fatal(err)
						}
						_, err = w.again(ctx, c, service("b", update))
						done = err == nil
						w.pass(10 * time.Second)
						if _, err := w.again(t.Context(), w.Client, service(target, update)); err != nil {
							t.Errorf("at write %d: %v", writes, err)
						}
						w.keeps(since-1, fmt.Sprintf("%s, to %s, crash at write %d (%t)", update, target, writes, after), holds)
						w.runs(service(target, update), "0 "+target+" running", "1 "+target+" running")
					})
				}
			}
			if writes < 6 {
				t.Errorf("there were %d writes", writes)
			}
		}
	}
}

// A second apply takes over: the first one stops at its next step.
func TestUpdateIsTakenOver(t *testing.T) {
	rollIn(t, func(t *testing.T, w *rolled) {
		since := w.started(service("a", startFirst))
		first := make(chan error)
		go func() {
			_, err := w.again(t.Context(), w.Client, service("b", startFirst))
			first <- err
		}()
		w.pass(1500 * time.Millisecond)
		if _, err := w.again(t.Context(), w.Client, service("c", startFirst)); err != nil {
			t.Fatal(err)
		}
		if err := <-first; !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "another apply or a stop has changed it meanwhile") {
			t.Errorf("the first one says %v", err)
		}
		w.keeps(since, "2 are healthy", atLeastTwo)
		w.runs(service("c", startFirst), "0 c running", "1 c running")
	})
}

// A stop of the job ends its update: no task follows, and the next apply launches another job.
func TestUpdateEndsWithAStop(t *testing.T) {
	for _, update := range []string{startFirst, stopFirst} {
		for after := time.Second; after < 12*time.Second; after += 750 * time.Millisecond {
			rollIn(t, func(t *testing.T, w *rolled) {
				w.started(service("a", update))
				begun := make(chan error)
				go func() {
					_, err := w.again(t.Context(), w.Client, service("b", update))
					begun <- err
				}()
				w.pass(after)
				w.stopJob()
				if err := <-begun; err != nil && !types.Is(err, types.Precondition) {
					t.Errorf("%s, after %s: %v", update, after, err)
				}
				w.pass(time.Second)
				tasks, _, err := w.Tasks(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for i := range tasks {
					if !tasks[i].Phase().Ended() {
						t.Errorf("%s, after %s: task %s is %s", update, after, tasks[i].ID, tasks[i].Phase())
					}
				}
				for id, j := range w.view().Jobs {
					if j.V.Updating {
						t.Errorf("%s, after %s: job %s is being updated", update, after, id.ID)
					}
				}
				d := w.apply(service("b", update), apply.Options{})
				if c := d.Changes[0]; c.Action != apply.Launch || len(d.Launched()) != 2 {
					t.Errorf("%s, after %s: it is to %s", update, after, c.Action)
				}
			})
		}
	}
}

// stopJob stops the job as escher stop does.
func (w *rolled) stopJob() {
	w.t.Helper()
	for id := range w.view().Jobs {
		if err := apply.EndUpdate(w.t.Context(), w.Client, id.ID); err != nil {
			w.t.Fatal(err)
		}
	}
	tasks, _, err := w.Tasks(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range tasks {
		if err := w.Stop(w.t.Context(), tasks[i].ID, controlplane.StopOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestUpdateThatFails(t *testing.T) {
	for _, test := range []struct {
		update, image string
		says          []string
		holds         func(moment) bool
	}{
		{startFirst, "crash", []string{"has failed with exit code 3", "0 run as described, 2 as before (index 0-1)", "to go back, apply the former file"}, atLeastTwo},
		{startFirst, "ill", []string{"is not healthy after 1m0s: it runs, and is starting", "2 as before"}, atLeastTwo},
		{stopFirst, "crash", []string{"0 run as described, 1 as before (index 1), 1 do not run (index 0)", "to go on, apply the file again"}, atLeastOne},
		{stopFirst, "ill", []string{"is not healthy after 1m"}, atLeastOne},
	} {
		rollIn(t, func(t *testing.T, w *rolled) {
			since := w.started(service("a", test.update))
			for range 2 { // the second one tries it again
				_, err := w.again(t.Context(), w.Client, service(test.image, test.update))
				if !types.Is(err, types.Precondition) {
					t.Fatalf("got %v", err)
				}
				for _, s := range append(test.says, "update job web-") {
					if !strings.Contains(err.Error(), s) {
						t.Errorf("%q does not say %q", err, s)
					}
				}
			}
			if _, err := w.again(t.Context(), w.Client, service("a", test.update)); err != nil {
				t.Error(err)
			}
			w.keeps(since, test.update, test.holds)
			w.runs(service("a", test.update), "0 a running", "1 a running")
		})
	}
}

// A former task that ends by itself and is forgotten during the update is not stopped.
func TestUpdateOfATaskThatIsForgotten(t *testing.T) {
	rollIn(t, func(t *testing.T, w *rolled) {
		d := w.apply(service("a", stopFirst), apply.Options{})
		w.pass(5 * time.Second)
		begun := make(chan error)
		go func() {
			_, err := w.again(t.Context(), w.Client, service("b", stopFirst))
			begun <- err
		}()
		w.pass(1500 * time.Millisecond) // the first one is replaced
		last := d.Launched()[1]
		w.put(last, &types.Status{Attempt: 1, Phase: types.Failed})
		if err := w.Remove(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		if err := <-begun; err != nil {
			t.Fatal(err)
		}
		w.runs(service("b", stopFirst), "0 b running", "1 b running")
	})
}

// While a task that is not replaced waits for its next attempt, no other one is stopped.
func TestUpdateWhileANodeIsLost(t *testing.T) {
	rollIn(t, func(t *testing.T, w *rolled) {
		w.started(service("a", stopFirst))
		begun := make(chan error)
		go func() {
			_, err := w.again(t.Context(), w.Client, service("b", stopFirst))
			begun <- err
		}()
		w.pass(1500 * time.Millisecond) // the first one is replaced
		tasks, _, err := w.Tasks(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range tasks {
			if spec, _ := w.Spec(t.Context(), tasks[i].Task.Spec); spec != nil && spec.Image == "b" {
				w.put(tasks[i].ID, &types.Status{Attempt: tasks[i].Attempt(), Phase: types.Pending, Reason: "its node was lost"})
			}
		}
		since := w.revision()
		if err := <-begun; err != nil {
			t.Fatal(err)
		}
		w.keeps(since, "one is healthy", atLeastOne)
		w.runs(service("b", stopFirst), "0 b running", "1 b running")
	})
}

// unsteady is a store in which new tasks become unhealthy just before the first stop of a former one.
type unsteady struct {
	controlplane.Store
	w    *rolled
	done bool
}

func (s *unsteady) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	stops := slices.ContainsFunc(txn.Ops, func(op controlplane.Op) bool {
		var task types.Task
		k, _ := controlplane.Parse(op.Key)
		return k.Kind == controlplane.Tasks && types.Decode(op.Value, &task) == nil && task.Stop != nil
	})
	if stops && !s.done {
		s.done = true
		tasks, _, err := s.w.Tasks(ctx)
		if err != nil {
			return controlplane.Result{}, err
		}
		for _, task := range tasks {
			if spec, err := s.w.Spec(ctx, task.Task.Spec); err == nil && spec.Image == "b" {
				s.w.put(task.ID, &types.Status{Attempt: 1, Phase: types.Running, Health: types.Unhealthy, Started: time.Now().UnixNano()})
			}
		}
	}
	return s.Store.Commit(ctx, txn)
}

// The successors are healthy at the very revision of the stop.
func TestUpdateStopsOnlyWhileTheSuccessorIsHealthy(t *testing.T) {
	rollIn(t, func(t *testing.T, w *rolled) {
		since := w.started(service("a", startFirst))
		store := &unsteady{Store: w.store, w: w}
		c, err := controlplane.New(store, "team")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.again(t.Context(), c, service("b", startFirst)); err != nil || !store.done {
			t.Fatal(err)
		}
		w.keeps(since, "2 are healthy", atLeastTwo)
		w.runs(service("b", startFirst), "0 b running", "1 b running")
	})
}
