package outbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// rig is a running outbox on a store that records commits.
type rig struct {
	t     *testing.T
	store *recorded
	out   *Outbox
}

// withRig runs f with an outbox, in a bubble of synctest.
func withRig(t *testing.T, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, store: &recorded{Store: memstore.New(), began: time.Now()}}
		r.out = New(r.store, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.out.Run(ctx) }()
		f(r)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func attempt(id string) controlplane.Key {
	return controlplane.Key{Kind: controlplane.Bindings, Node: "n", Namespace: "bench", ID: id, Attempt: 1}
}

// bind binds tasks.
func (r *rig) bind(ids ...string) {
	for _, id := range ids {
		put(r.t, r.store.Store, attempt(id).String(), &types.Binding{})
	}
}

// report puts a report of a task.
func (r *rig) report(id string, report types.Report) {
	report.Binding = at(r.t, r.store, attempt(id).String()).CreateRevision
	r.out.Put(&Letter{Attempt: attempt(id), Report: &report})
}

func (r *rig) runs(id string) { r.report(id, types.Report{Phase: types.ReportRunning}) }
func (r *rig) ends(id string) { r.report(id, types.Report{Phase: types.ReportExited}) }

// busy stores so many reports that one more goes at once, and the next ones wait.
func (r *rig) busy() {
	for i := range burst {
		id := fmt.Sprintf("busy-%d", i)
		r.bind(id)
		r.ends(id)
		synctest.Wait()
	}
	time.Sleep(gap)
	r.store.reset()
}

// TestPace tests which reports wait, and for how long.
func TestPace(t *testing.T) {
	for _, test := range []struct {
		name string
		busy bool
		do   func(r *rig)
		want string
	}{
		{"what is alone goes at once", false, func(r *rig) {
			r.runs("a")
		}, "0s: a running"},
		{"so do the next ones of a quiet node", false, func(r *rig) {
			for _, id := range []string{"a", "b", "c"} {
				r.runs(id)
				time.Sleep(10 * time.Millisecond)
				r.ends(id)
				time.Sleep(10 * time.Millisecond)
			}
		}, "0s: a running; 10ms: a exited; 20ms: b running; 30ms: b exited; 40ms: c running; 50ms: c exited"},
		{"a busy one gathers", true, func(r *rig) {
			r.ends("a")
			time.Sleep(10 * time.Millisecond)
			r.runs("b")
			time.Sleep(10 * time.Millisecond)
			r.ends("c")
		}, "0s: a exited; 100ms: b running, c exited"},
		{"the end of a short run takes the place of its beginning", true, func(r *rig) {
			r.ends("a")
			time.Sleep(10 * time.Millisecond)
			r.runs("b")
			time.Sleep(60 * time.Millisecond)
			r.ends("b")
		}, "0s: a exited; 100ms: b exited"},
		{"what comes after a while does not wait", true, func(r *rig) {
			r.ends("a")
			time.Sleep(110 * time.Millisecond)
			r.runs("b")
		}, "0s: a exited; 110ms: b running"},
		{"what was stopped does not wait, and takes along all", true, func(r *rig) {
			r.ends("a")
			time.Sleep(10 * time.Millisecond)
			r.runs("b")
			r.report("c", types.Report{Phase: types.ReportExited, Stopped: true})
		}, "0s: a exited; 10ms: b running, c exited"},
		{"nor does what ends with the session", true, func(r *rig) {
			r.ends("a")
			time.Sleep(10 * time.Millisecond)
			r.report("c", types.Report{Phase: types.ReportExited, Fenced: true})
		}, "0s: a exited; 10ms: c exited"},
		{"what was not to wait does not make others wait for long", true, func(r *rig) {
			for range 20 {
				r.report("c", types.Report{Phase: types.ReportExited, Stopped: true})
				synctest.Wait()
			}
			r.store.reset()
			r.ends("a")
		}, "100ms: a exited"},
	} {
		t.Run(test.name, func(t *testing.T) {
			withRig(t, func(r *rig) {
				r.bind("a", "b", "c")
				if test.busy {
					r.busy()
				}
				r.store.reset()
				test.do(r)
				time.Sleep(time.Second)
				if got := r.store.told(); got != test.want {
					t.Errorf("stored\n%s\nwant\n%s", got, test.want)
				}
			})
		})
	}
}

// TestQuietAgain tests that a node that was busy does not wait after a while.
func TestQuietAgain(t *testing.T) {
	withRig(t, func(r *rig) {
		r.bind("a", "b")
		r.busy()
		time.Sleep(burst * gap)
		r.store.reset()
		r.runs("a")
		time.Sleep(time.Millisecond)
		r.runs("b")
		time.Sleep(time.Second)
		if got, want := r.store.told(), "0s: a running; 1ms: b running"; got != want {
			t.Errorf("stored %s, want %s", got, want)
		}
	})
}

// TestFewTransactions tests how many transactions short tasks need on a busy node, and that reports
// of a quiet one do not wait.
func TestFewTransactions(t *testing.T) {
	for _, test := range []struct {
		rate  int // of tasks a second
		most  float64
		least float64
	}{{1, 2, 1.8}, {15, 0.75, 0}, {40, 0.3, 0}} {
		t.Run(fmt.Sprint(test.rate), func(t *testing.T) {
			withRig(t, func(r *rig) {
				rng := rand.New(rand.NewPCG(1, 2))
				tasks := 40 * test.rate
				var wg sync.WaitGroup
				for i := range tasks {
					time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Second) / float64(test.rate)))
					id, runs := fmt.Sprint("t", i), time.Duration(rng.ExpFloat64()*100e6)
					r.bind(id)
					r.runs(id)
					wg.Go(func() {
						time.Sleep(runs)
						r.ends(id)
					})
				}
				wg.Wait()
				time.Sleep(time.Second)
				letters := 0
				for _, x := range r.store.all() {
					letters += len(x.txn.Ops)
				}
				each := float64(len(r.store.all())) / float64(tasks)
				t.Logf("%d tasks a second: %.2f transactions and %.2f reports each", test.rate, each, float64(letters)/float64(tasks))
				if each > test.most || each < test.least {
					t.Errorf("%.2f transactions a task: want %g to %g", each, test.least, test.most)
				}
			})
		})
	}
}

// TestRefused tests that a report is stored only if its binding exists and it follows the stored
// report, and that a refused one does not hold back others.
func TestRefused(t *testing.T) {
	store := memstore.New()
	o := New(store, nil)
	created := make(map[string]int64)
	for _, id := range []string{"stays", "anew", "gone"} {
		put(t, store, attempt(id).String(), &types.Binding{})
		created[id] = at(t, store, attempt(id).String()).CreateRevision
	}
	remove(t, store, attempt("gone").String())
	remove(t, store, attempt("anew").String())
	put(t, store, attempt("anew").String(), &types.Binding{})
	// An earlier life of the agent stored a report unknown to this one.
	put(t, store, reportKey("stays"), &types.Report{Phase: types.ReportRunning, Binding: created["stays"]})

	outcomes := make(map[string]Outcome)
	letter := func(id string, phase types.ReportPhase) *Letter {
		l := &Letter{Attempt: attempt(id), Report: &types.Report{Phase: phase, Binding: created[id]}, Done: func(o Outcome) { outcomes[id] = o }}
		l.name()
		return l
	}
	err := o.deliver(t.Context(), []*Letter{
		letter("gone", types.ReportRunning), letter("stays", types.ReportExited), letter("anew", types.ReportRunning),
	})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]types.ReportPhase{"stays": types.ReportExited, "anew": "", "gone": ""} {
		if got := phaseOf(t, store, id); got != want {
			t.Errorf("%s: %q is stored, want %q", id, got, want)
		}
		if refused := outcomes[id] == Refused; refused != (want == "") {
			t.Errorf("%s: the outcome is %d", id, outcomes[id])
		}
	}
	if len(o.known) != 0 {
		t.Errorf("%v are remembered, and all have ended", o.known)
	}
}

// TestReleasedMeanwhile tests a later report, which compares only the earlier one: it is refused
// after the release of its attempt, even if another binding has the same key.
func TestReleasedMeanwhile(t *testing.T) {
	for _, again := range []bool{false, true} {
		withRig(t, func(r *rig) {
			r.bind("a")
			created := at(t, r.store, attempt("a").String()).CreateRevision
			r.runs("a")
			synctest.Wait()
			remove(t, r.store.Store, attempt("a").String(), reportKey("a"))
			if again {
				r.bind("a")
				put(t, r.store.Store, reportKey("a"), &types.Report{Phase: types.ReportRunning, Binding: created + 1})
			}
			var got []Outcome
			r.out.Put(&Letter{
				Attempt: attempt("a"), Report: &types.Report{Phase: types.ReportExited, Binding: created},
				Done: func(o Outcome) { got = append(got, o) },
			})
			synctest.Wait()
			if !slices.Equal(got, []Outcome{Refused}) {
				t.Errorf("another of its key: %t: the outcomes are %v", again, got)
			}
			if phaseOf(t, r.store, "a") == types.ReportExited {
				t.Errorf("another of its key: %t: it is stored", again)
			}
		})
	}
}

// TestStoredByAnother tests that a report is not written again if a killed agent's late one is the
// same, and that the next report follows it.
func TestStoredByAnother(t *testing.T) {
	withRig(t, func(r *rig) {
		r.bind("a")
		report := types.Report{Phase: types.ReportRunning, Binding: at(t, r.store, attempt("a").String()).CreateRevision, Started: 7}
		key := controlplane.ReportKey("n", "bench", "a", 1)
		put(t, r.store.Store, key, &report)
		late := at(t, r.store, key).ModRevision
		var got []Outcome
		r.out.Put(&Letter{Attempt: attempt("a"), Report: &report, Done: func(o Outcome) { got = append(got, o) }})
		synctest.Wait()
		if now := at(t, r.store, key).ModRevision; now != late || !slices.Equal(got, []Outcome{Stored}) {
			t.Errorf("it was written at %d, and is written at %d: %v", late, now, got)
		}
		r.ends("a")
		synctest.Wait()
		if phaseOf(t, r.store, "a") != types.ReportExited {
			t.Error("the next report is not stored")
		}
	})
}

// TestLateCopy tests that a delayed copy of a report changes nothing.
func TestLateCopy(t *testing.T) {
	withRig(t, func(r *rig) {
		r.bind("a")
		r.runs("a")
		synctest.Wait()
		r.ends("a")
		synctest.Wait()
		late := r.store.all()[0].txn
		if res, err := r.store.Commit(t.Context(), late); err != nil || res.Committed {
			t.Errorf("committed: %t, %v", res.Committed, err)
		}
	})
}
