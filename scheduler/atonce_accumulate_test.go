package scheduler

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// gangWaits is two full nodes, and a gang of job j that wants all of n1 or n2 and may
// accumulate.
func gangWaits(t *testing.T) *bench {
	t.Helper()
	b := filled(t)
	b.put(controlplane.JobKey("d", "j"), &types.Job{Tasks: 1})
	b.put(controlplane.ReservationKey("d", "gang"), &types.Reservation{
		Job: "j", Accumulate: true, Submitted: b.now.UnixNano(), Bundles: []types.Bundle{bundleOf(map[string]types.Quantity{"cpu": 1000})},
	})
	b.settle()
	return b
}

// laterEnded is a minute later, with a task ended meanwhile.
func (b *bench) laterEnded(ended string) {
	b.t.Helper()
	b.now = b.now.Add(time.Minute)
	b.exited(ended)
	b.settle()
}

// TestAtOnceInsteadOfAccumulating: what accumulates gives back what it has when a
// reservation of its job collects at once, so that it can have what that collects; of
// another job it keeps it.
func TestAtOnceInsteadOfAccumulating(t *testing.T) {
	for job, want := range map[string]types.GrantPhase{"j": types.Granted, "k": types.Accumulating} {
		b := gangWaits(t)
		b.laterEnded("a1")
		if g := b.grantAt("gang"); g.Phase != types.Accumulating || heldOf(g.On("n1"), "cpu") != 500 {
			t.Fatalf("it has %+v", g)
		}
		b.collectsNow("r", job, map[string]types.Quantity{"n1": 1000})
		b.laterEnded("a2")
		if g := b.grantAt("gang"); g.Phase != want {
			t.Errorf("beside that of job %s it has %+v", job, g)
		}
	}
}

// TestAtOnceBeforeAccumulating: a reservation does not begin to accumulate while one of its
// job collects at once, and does when that is over.
func TestAtOnceBeforeAccumulating(t *testing.T) {
	b := gangWaits(t)
	b.collectsNow("r", "j", map[string]types.Quantity{"n1": 1000})
	b.laterEnded("b1")
	if g := b.grantAt("gang"); g.Phase != "" {
		t.Errorf("it has %+v", g)
	}
	b.del(controlplane.ReservationKey("d", "r"))
	b.settle()
	b.now = b.core.Wake()
	b.settle()
	if g := b.grantAt("gang"); g.Phase != types.Accumulating {
		t.Errorf("after that it has %+v", g)
	}
}

// TestAtOnceAndAccumulating: one of another job that asks for the same begins meanwhile.
func TestAtOnceAndAccumulating(t *testing.T) {
	b := gangWaits(t)
	b.collectsNow("r", "j", map[string]types.Quantity{"n1": 1000})
	b.put(controlplane.JobKey("d", "k"), &types.Job{Tasks: 1})
	other := *b.core.view.Reservations[clusterID("d", "gang")].Info.V
	other.Job = "k"
	other.Submitted++
	b.put(controlplane.ReservationKey("d", "other"), &other)
	b.laterEnded("b1")
	if g := b.grantAt("other"); g.Phase != types.Accumulating {
		t.Errorf("it has %+v", g)
	}
}
