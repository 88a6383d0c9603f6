package audittest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/audit/audittest"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/writers"
	"github.com/escher-sched/escher/types"
)

// recorder is a test that records its failures.
type recorder struct {
	testing.TB
	cleanups []func()
	errors   []string
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// end ends the test.
func (r *recorder) end() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
}

func commit(t *testing.T, store controlplane.Store, f func(*controlplane.Change)) {
	t.Helper()
	c := controlplane.NewChange(1)
	f(c)
	if res, err := store.Commit(context.Background(), c.Txn()); err != nil || !res.Committed {
		t.Fatal(res, err)
	}
}

// TestWatchFindsWhatIsWrongForOneRevision violates a guarantee at one revision and repairs it at
// the next, right before the end of the test.
func TestWatchFindsWhatIsWrongForOneRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, rec := memstore.New(), &recorder{TB: t}
		audittest.Watch(rec, store)
		commit(t, store, func(c *controlplane.Change) { c.Put(controlplane.NodeKey("n1"), &types.Node{}) })
		holds := []types.Holding{{Resource: "cpu", Amount: 1}}
		commit(t, store, func(c *controlplane.Change) { c.Put(controlplane.AllocatedKey("n1"), &types.Allocated{Holds: holds}) })
		commit(t, store, func(c *controlplane.Change) { c.Put(controlplane.AllocatedKey("n1"), &types.Allocated{}) })
		rec.end()
		if len(rec.errors) != 1 || !strings.Contains(rec.errors[0], "revision 3: AllocatedIsSum: node n1 cpu") {
			t.Errorf("%q", rec.errors)
		}
	})
}

// TestWatchStaysSilent has nothing to find, even when the newest revision is not about a key of
// Escher.
func TestWatchStaysSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, rec := memstore.New(), &recorder{TB: t}
		audittest.Watch(rec, store)
		commit(t, store, func(c *controlplane.Change) { c.Put(controlplane.NodeKey("n1"), &types.Node{}) })
		commit(t, store, func(c *controlplane.Change) { c.Put("/else", &types.Node{}) })
		rec.end()
		if len(rec.errors) != 0 {
			t.Errorf("%q", rec.errors)
		}
	})
}

func TestWatchReportsAFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, rec := memstore.New(), &recorder{TB: t}
		audittest.Watch(rec, store)
		commit(t, store, func(c *controlplane.Change) {
			for i := range 30 {
				c.Put(controlplane.StatusKey("d", fmt.Sprint("t", i)), &types.Status{Phase: types.Pending})
			}
		})
		rec.end()
		// Two findings each: a status without a task, and a phase that no task may begin with.
		if n := len(rec.errors); n != 21 || rec.errors[n-1] != "audit: and 40 more" {
			t.Errorf("%q", rec.errors)
		}
	})
}

func TestAsFailsOnAnothersKey(t *testing.T) {
	rec := &recorder{TB: t}
	store := audittest.As(rec, memstore.New(), audit.Author{Writer: writers.Agent, Node: "n1"})
	commit(t, store, func(c *controlplane.Change) { c.Put(controlplane.NodeKey("n1"), &types.Node{}) })
	if len(rec.errors) != 0 {
		t.Errorf("%q", rec.errors)
	}
	commit(t, store, func(c *controlplane.Change) { c.Put(controlplane.NodeKey("n2"), &types.Node{}) })
	if len(rec.errors) != 1 || !strings.Contains(rec.errors[0], "OneWriter") {
		t.Errorf("%q", rec.errors)
	}
}

const script = `put nodes/n1 {"Capacity": {"cpu": "2"}}
put alive/n1 {}

put tasks/d/a {"Requests": {"cpu": "500m"},
  "Stop": {"Reason": "two words"}}
put odd nonsense

put bindings/n1/d/a/1 {"Session": $(alive/n1)}
del nodes/n1
want NothingLost task d/a
`

func TestScriptsAreFormattedAsTheyAreParsed(t *testing.T) {
	steps, err := audittest.Parse(script)
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) != 3 || len(steps[2].Want) != 1 || steps[2].Want[0] != "NothingLost task d/a" {
		t.Fatal(steps)
	}
	var b types.Binding
	if err := types.Decode(steps[2].Batch.Events[0].Value, &b); err != nil || b.Session != 2 {
		t.Error(b, err)
	}
	text := audittest.Format(batches(steps))
	again, err := audittest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := audittest.Format(batches(again)); got != text || !strings.Contains(text, "two words") {
		t.Errorf("%s\n%s", text, got)
	}
	for i := range steps {
		for j, e := range steps[i].Batch.Events {
			if f := again[i].Batch.Events[j]; string(f.Value) != string(e.Value) || f.Key != e.Key || f.CreateRevision != e.CreateRevision {
				t.Errorf("%v became %v", e, f)
			}
		}
	}
}

func batches(steps []audittest.Step) []controlplane.Batch {
	var out []controlplane.Batch
	for _, s := range steps {
		out = append(out, s.Batch)
	}
	return out
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	for script, want := range map[string]string{
		"drop nodes/n1":                     `"drop" is neither put, del nor want`,
		"put nodes/n1 {\"Cap\": 1}":         "unknown field",
		"put nodes/n1 {}\n\nhello nodes/n1": "revision 3",
	} {
		if _, err := audittest.Parse(script); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", script, err, want)
		}
	}
}
