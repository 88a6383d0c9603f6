package audit_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/audit/audittest"
)

// TestFullAndIncrementalAgree builds wild histories from the scripts: parts of several, in turn,
// with changes left out, repeated or about other objects. A checker of each revision must agree
// with the keys alone.
func TestFullAndIncrementalAgree(t *testing.T) {
	all := cases(t)
	sorted := slices.Sorted(maps.Keys(all))
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := &wild{model: newModel(), revision: 1}
		c := audit.NewChecker()
		for range 3 {
			for _, step := range all[sorted[rng.IntN(len(sorted))]] {
				batch := w.mutate(rng, step.Batch)
				if len(batch.Events) == 0 {
					continue
				}
				w.history = append(w.history, batch)
				found := c.Apply(batch)
				w.agree(t, c, found)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, audittest.Format(w.history))
		}
	}
}

// wild is a history under construction.
type wild struct {
	*model
	revision int64
	history  []controlplane.Batch
}

// mutate makes the next revision of a batch, as a store would deliver it.
func (w *wild) mutate(rng *rand.Rand, batch controlplane.Batch) controlplane.Batch {
	out := controlplane.Batch{Revision: w.revision + 1}
	done := make(map[string]bool)
	for _, e := range batch.Events {
		switch rng.IntN(20) {
		case 0:
			continue
		case 1:
			e.Delete, e.Value = true, nil
		case 2:
			if at := rng.IntN(len(w.history) + 1); at < len(w.history) {
				events := w.history[at].Events
				e = events[rng.IntN(len(events))]
			}
		}
		if _, there := w.keys[e.Key]; done[e.Key] || e.Delete && !there {
			continue
		}
		done[e.Key] = true
		e.ModRevision, e.CreateRevision = out.Revision, 0
		if kv, there := w.keys[e.Key]; there && !e.Delete {
			e.CreateRevision = kv.CreateRevision
		} else if !e.Delete {
			e.CreateRevision = out.Revision
		}
		out.Events = append(out.Events, e)
	}
	if len(out.Events) > 0 {
		w.revision++
		w.apply(out)
	}
	return out
}
