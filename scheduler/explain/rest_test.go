package explain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestCollectsForItself: a reservation that collects to keep what it gets says so.
func TestCollectsForItself(t *testing.T) {
	inSmall(t, func(w *small) {
		w.nodes(q{"cpu": 1000}, "n1")
		for _, id := range []string{"a1", "a2"} {
			w.launch(id, q{"cpu": 500})
		}
		bundle := bundleOf(q{"cpu": 1000})
		bundle.Node = "n1"
		bundles := []types.Bundle{bundle}
		w.put(controlplane.JobKey("d", "j"), &types.Job{},
			controlplane.ReservationKey("d", "r"), &types.Reservation{Collect: types.NewCollect(bundles, false), Job: "j", Bundles: bundles})
		w.settle()
		w.ends("a1", 0, "")
		if x, want := w.explain("reservation/r"), "It collects what becomes free on the nodes that it names, to keep it: so far 0.5 of 1 cpu on n1."; x.Summary != want {
			t.Errorf("it says %q, want %q", x.Summary, want)
		}
	})
}

// TestLendsUntil: a reservation that lends what it collects says until when, to those that wait for it, too;
// after that it says that it is late.
func TestLendsUntil(t *testing.T) {
	for in, want := range map[time.Duration][2]string{
		2 * time.Hour: {
			"It is for 2000-01-01T02:00:01Z, in 2h. Until then only tasks that end before, maxRun, may use what it has collected.",
			"Reservation r is for 2000-01-01T02:00:01Z, in 2h. Until then only tasks that end before, maxRun, may use what it has collected.",
		},
		-time.Minute: {"It is late: it is for 1999-12-31T23:59:01Z, 1m1s ago.", ""},
	} {
		inSmall(t, func(w *small) {
			w.nodes(q{"cpu": 1000}, "n1")
			w.launch("runs", q{"cpu": 500})
			to := &types.Collect{On: []string{"n1"}, LendUntil: w.now.Add(in).UnixNano()}
			w.put(controlplane.ReservationKey("d", "r"), &types.Reservation{Collect: to, Bundles: []types.Bundle{bundleOf(q{"cpu": 1000})}})
			w.settle()
			w.launch("waits", q{"cpu": 500})
			for i, subject := range []string{"reservation/r", "task/waits"} {
				var notes []string
				for _, n := range w.explain(subject).Notes {
					notes = append(notes, n.String())
				}
				if text := strings.Join(notes, " "); want[i] == "" && strings.Contains(text, "Until then") || !strings.Contains(text, want[i]) {
					t.Errorf("in %s %s says %q", in, subject, text)
				}
			}
		})
	}
}

// TestMoveIsExplained: the reservation says what its bundles wait for, and a task of it why it is
// not placed.
func TestMoveIsExplained(t *testing.T) {
	inSmall(t, func(w *small) {
		w.nodes(q{"cpu": 2000}, "n1", "n2")
		w.reserve("train", types.Reservation{Lost: types.MoveBundles}, q{"cpu": 2000}, q{"cpu": 2000})
		w.launch("m1", q{"cpu@train": 2000})
		w.launch("m2", q{"cpu@train": 2000})
		lost, other := w.core.View().Task(clusterID("d", "m1")).Status.V.Node, w.core.View().Task(clusterID("d", "m2")).Status.V.Node
		w.lose(lost)
		w.settle()
		what := "What it has on " + lost + ", which is lost, moves when it has room, and waits for 2 cpu: 0 of 2 cpu is free on " + other + "."
		if x := w.explain("reservation/train"); len(x.Notes) != 1 || x.Notes[0].String() != what {
			t.Errorf("the reservation says %q", x.Notes)
		}
		if x := w.explain("task/m1"); len(x.Notes) == 0 || x.Notes[len(x.Notes)-1].String() != "Reservation train: "+what {
			t.Errorf("the task says %q", x.Notes)
		}
	})
}

// TestRetryIsExplained: the explanation says what failed, and when the next attempt is.
func TestRetryIsExplained(t *testing.T) {
	inSmall(t, func(w *small) {
		w.nodes(q{"cpu": 2000}, "n1")
		w.launch("a", nil, func(t *types.Task) { t.Retries = 3 })
		w.ends("a", 3, "")
		if x := w.explain("task/a"); x.Summary != "It failed on n1 (attempt 1), and waits 1s before its next attempt: failure 1: exit code 3." {
			t.Errorf("it says %q", x.Summary)
		}
	})
}

// garble writes an unreadable value.
func (w *small) garble(key string) {
	w.t.Helper()
	w.commit(controlplane.Txn{Ops: []controlplane.Op{{Key: key, Value: []byte("\x7fof a version to come")}}})
	w.settle()
}

// TestUnreadableIsNamed: why names the key of a namespace, a task, a status or a node that cannot
// be read.
func TestUnreadableIsNamed(t *testing.T) {
	w := newSmall(t)
	w.nodes(q{"cpu": 4000}, "n1")
	task := func(id string) {
		w.put(controlplane.TaskKey("d", id), &types.Task{Requests: types.NewRequests(q{"cpu": 100})})
		w.settle()
	}
	w.garble(controlplane.NamespaceKey("d"))
	task("a")
	x, err := Explain(w.core.View(), clusterID("d", "a"), w.now)
	if err != nil || x.Summary != "Nothing of namespace d is placed: /escher/namespaces/d cannot be read." || !strings.Contains(x.Suggestion.String(), "repair key /escher/namespaces/d") {
		t.Errorf("it says %q, %q, %v", x.Summary, x.Suggestion, err)
	}
	w.del(controlplane.NamespaceKey("d"))
	w.garble(controlplane.DevicesKey("n1"))
	task("b")
	x, err = Explain(w.core.View(), clusterID("d", "b"), w.now)
	if text := fmt.Sprintf("%+v", x); err != nil || !strings.Contains(text, "/escher/devices/n1 cannot be read") {
		t.Errorf("it says %s, %v", text, err)
	}
	for _, key := range []string{controlplane.StatusKey("d", "b"), controlplane.TaskKey("d", "b")} {
		w.garble(key)
		_, err = Explain(w.core.View(), clusterID("d", "b"), w.now)
		if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), key+" cannot be read") || !strings.Contains(err.Error(), "repair key "+key) {
			t.Errorf("it says %v", err)
		}
		w.del(key)
	}
}
