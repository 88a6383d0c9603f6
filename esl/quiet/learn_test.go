package quiet

import (
	"math"
	"strings"
	"testing"

	"github.com/escher-sched/escher/e2e/viewtest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// emptyWorld returns a world without nodes in which nothing is known.
func emptyWorld(t *testing.T) *world {
	b := viewtest.NewBench(t, 0)
	b.View.Reached(b.Revision)
	s := &esl.State{View: b.View, Namespace: "d", ID: "calm", Label: "quiet", Memo: new(any)}
	return &world{s: s, entries: make(map[string]entry)}
}

// TestEntries: what a pool stores is read as it was written, and amounts out of bounds are cut.
func TestEntries(t *testing.T) {
	for _, e := range []entry{{0, 0}, {0, 1}, {0.43, 12}, {1, most}} {
		if got := entryOf(e.quantity()); math.Abs(got.lost-e.lost) > 1e-9 || got.n != e.n {
			t.Errorf("%v is read as %v", e, got)
		}
	}
	if got := (entry{0.43, 12}).quantity(); got != 43_012 {
		t.Errorf("43 %% by 12 samples is written as %d", got)
	}
	if got := entryOf(250*esl.One + 500); got != (entry{1, most}) {
		t.Errorf("250 %% by 500 samples is read as %v", got)
	}
}

// TestCounts: the difference of a sample from what was expected goes to the part that is least known, and
// parts stay within 0 and 1.
func TestCounts(t *testing.T) {
	w := emptyWorld(t)
	w.entries["db.alone"], w.entries["db.idle"] = entry{0.05, most}, entry{0, most}
	for range 4 {
		w.count("db", []string{"idle", "loud"}, 0.55)
	}
	if e := w.entries["db.loud"]; e.lost < 0.4 || e.lost > 0.5 || e.n != 4 {
		t.Errorf("loud, the new one, is blamed by %v", e)
	}
	if e := w.entries["db.idle"]; e.lost > 0.05 || e.n != most {
		t.Errorf("idle, known as harmless, is blamed by %v", e)
	}
	for range 100 {
		w.count("web", []string{"loud"}, 0)
		w.count("bad", []string{"loud", "noisy"}, 5)
	}
	for key, e := range w.entries {
		if e.lost < 0 || e.lost > 1 || e.n > most {
			t.Errorf("%s: %v", key, e)
		}
	}
}

// TestSlugs: a kind has a name that a resource may have, that is none of the policy's own pools, and that
// differs from those of other kinds.
func TestSlugs(t *testing.T) {
	seen := make(map[string]string)
	for name, kept := range map[string]bool{
		"web": true, "sixteen-letters-": false, "sixteen-letters1": true, "seventeen-letters": false, "a.b": false, "a.c": false,
		"Web": true, "": false, alone: false, turn: false, faded: false, learned: false, since + "web": false,
		strings.Repeat("x", 60): false, strings.Repeat("x", 61): false,
	} {
		got := slug(name)
		if (got == name) != kept || len(got) > maxSlug || !types.IsName(got) || strings.Contains(got, ".") {
			t.Errorf("%q becomes %q", name, got)
		}
		if other, twice := seen[got]; twice {
			t.Errorf("%q and %q both become %q", name, other, got)
		}
		seen[got] = name
	}
}
