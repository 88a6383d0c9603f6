package audit_test

import (
	"slices"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
)

// model holds the present keys and the findings about them.
type model struct {
	keys map[string]controlplane.KV
	ever map[string]bool
	// changed reports whether an immutable object was changed: a listing then misjudges what was
	// there before.
	changed bool
}

func newModel() *model {
	return &model{keys: make(map[string]controlplane.KV), ever: make(map[string]bool)}
}

func (m *model) apply(batch controlplane.Batch) {
	for _, e := range batch.Events {
		if e.Delete {
			delete(m.keys, e.Key)
		} else {
			m.keys[e.Key] = e.KV
		}
	}
}

// loaded returns the findings about the keys as a listing.
func (m *model) loaded(revision int64) []audit.Finding {
	var events []controlplane.Event
	for _, kv := range m.keys {
		events = append(events, controlplane.Event{KV: kv})
	}
	return audit.NewChecker().Load(events, revision)
}

// changes reports whether the state alone shows a guarantee only in part.
func changes(g audit.Guarantee) bool {
	return g == audit.BoundImpliesEligible || g == audit.NoOversubscription || g == audit.DevicesAsRequested
}

// agree fails the test unless the checker of every revision and a checker of the present keys agree
// about the state.
func (m *model) agree(t *testing.T, c *audit.Checker, found []audit.Finding) {
	t.Helper()
	for _, f := range found {
		m.ever[string(f.Guarantee)+" "+f.Object] = true
		m.changed = m.changed || f.Guarantee == audit.Immutable
	}
	standing, full := plain(c.Standing()), m.loaded(c.Revision())
	again := c.Full()
	if a, b := plain(full), plain(again); !slices.Equal(a, b) {
		t.Fatalf("revision %d: a listing tells %q, Full %q", c.Revision(), a, b)
	}
	var state []audit.Finding
	for _, f := range full {
		if !changes(f.Guarantee) {
			state = append(state, f)
		} else if !m.changed && !m.ever[string(f.Guarantee)+" "+f.Object] {
			t.Fatalf("revision %d: a listing tells what no revision did: %s", c.Revision(), f)
		}
	}
	if now := plain(state); !slices.Equal(now, standing) {
		t.Fatalf("revision %d: a listing tells %q, the history %q", c.Revision(), now, standing)
	}
}

// plain returns findings as text, without revisions.
func plain(found []audit.Finding) []string {
	var out []string
	for _, f := range found {
		out = append(out, string(f.Guarantee)+" "+f.Object+" "+f.Text.String())
	}
	slices.Sort(out)
	return slices.Compact(out)
}
