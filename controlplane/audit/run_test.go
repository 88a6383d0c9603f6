package audit_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/audit/audittest"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// replay commits the revisions of a script to a store.
func replay(t *testing.T, store controlplane.Store, steps []audittest.Step) {
	t.Helper()
	for _, step := range steps {
		var txn controlplane.Txn
		for _, e := range step.Batch.Events {
			var lease controlplane.LeaseID
			if k, ok := controlplane.Parse(e.Key); ok && k.Kind.Leased() && !e.Delete {
				var err error
				if lease, err = store.GrantLease(context.Background(), time.Hour); err != nil {
					t.Fatal(err)
				}
			}
			txn.Ops = append(txn.Ops, controlplane.Op{Key: e.Key, Value: e.Value, Lease: lease, Delete: e.Delete})
		}
		if res, err := store.Commit(context.Background(), txn); err != nil || res.Revision != step.Batch.Revision {
			t.Fatal(res, err)
		}
	}
}

func TestRunReadsOneRevision(t *testing.T) {
	for name, want := range map[string]audit.Report{
		"accounts/two tasks fit":                                 {Revision: 5, Keys: 15, Nodes: 2, Tasks: 6, Bindings: 2},
		"tasks/bound twice":                                      {Revision: 5, Keys: 10, Nodes: 2, Tasks: 2, Bindings: 2},
		"accounts/more than there is":                            {Revision: 5, Keys: 13, Nodes: 2, Tasks: 6, Bindings: 1},
		"tasks/bound to a node that is cordoned":                 {Revision: 6, Keys: 12, Nodes: 2, Tasks: 2, Bindings: 2},
		"tasks/a task of a job is bound before the job is there": {Revision: 7, Keys: 13, Nodes: 2, Tasks: 3, Bindings: 2},
	} {
		t.Run(name, func(t *testing.T) {
			store, steps := memstore.New(), cases(t)[name]
			replay(t, store, steps)
			report, err := audit.Run(t.Context(), store)
			if err != nil {
				t.Fatal(err)
			}
			var wanted []string
			for _, step := range steps {
				wanted = append(wanted, step.Want...)
			}
			if got := names(report.Findings); !slices.Equal(got, wanted) {
				t.Errorf("found %q, want %q", got, wanted)
			}
			report.Findings = nil
			if report.Revision != want.Revision || report.Keys != want.Keys || report.Nodes != want.Nodes ||
				report.Tasks != want.Tasks || report.Bindings != want.Bindings {
				t.Errorf("%+v, want %+v", report, want)
			}
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := audit.Run(ctx, memstore.New()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestFollowTellsEachRevision starts in the middle of a history and follows it to its end.
func TestFollowTellsEachRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, steps := memstore.New(), cases(t)["accounts/allocated is forgotten, and then too much"]
		replay(t, store, steps[:4])
		ctx, cancel := context.WithCancel(t.Context())
		var found []audit.Finding
		done := make(chan error)
		go func() {
			done <- audit.Follow(ctx, store, nil, func(_ int64, f []audit.Finding) error {
				found = append(found, f...)
				return nil
			})
		}()
		synctest.Wait()
		replay(t, store, steps[4:])
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if len(found) != 3 || found[0].Revision != 5 || found[1].Revision != 6 || found[2].Revision != 7 {
			t.Error(found)
		}
	})
}

// TestLoadForgetsWhatIsGone loads a later state, which ends earlier findings.
func TestLoadForgetsWhatIsGone(t *testing.T) {
	steps, err := audittest.Parse("put status/d/a {\"Phase\": \"pending\"}\nput odd {}\n\ndel status/d/a\ndel odd\n\nput nodes/n1 {}")
	if err != nil {
		t.Fatal(err)
	}
	c := audit.NewChecker()
	if found := c.Load(steps[0].Batch.Events, 2); len(found) != 2 {
		t.Error(found)
	}
	events := append(steps[1].Batch.Events, steps[2].Batch.Events...)
	if found := c.Load(events, 4); len(found) != 0 || len(c.Standing()) != 0 || c.Revision() != 4 {
		t.Error(found, c.Standing(), c.Revision())
	}
}

// TestOneLookSeesWhatIsHeldWithoutDevices checks that a single audit finds holdings without
// devices.
func TestOneLookSeesWhatIsHeldWithoutDevices(t *testing.T) {
	for _, name := range []string{"without a device", "with less of devices than of the resource", "granted without a device"} {
		m, last := newModel(), audittest.Step{}
		for _, last = range cases(t)["devices/"+name] {
			m.apply(last.Batch)
		}
		if got := names(m.loaded(last.Batch.Revision)); !slices.Equal(got, last.Want) {
			t.Errorf("%s: found %q, want %q", name, got, last.Want)
		}
	}
}

func TestLivesCountWrites(t *testing.T) {
	c := audit.NewChecker()
	for _, step := range cases(t)["tasks/a whole life takes thirteen writes"] {
		c.Apply(step.Batch)
	}
	if got, want := c.Lives(), (audit.Lives{Tasks: 1, Writes: 13, Most: 13}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestFindingsAreATable(t *testing.T) {
	f := audit.Finding{Guarantee: audit.GangAtomic, Object: "grant d/r", Revision: 9, Text: types.Textf("is partial")}
	if len(f.Header()) != len(f.Row()) {
		t.Error(f.Header(), f.Row())
	}
	if got := f.String(); !strings.Contains(got, "9") || !strings.Contains(got, "GangAtomic: grant d/r: is partial") {
		t.Error(got)
	}
}
