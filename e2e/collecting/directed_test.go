package collecting

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/types"
)

// gangWaits is two full nodes, and a gang of job j that wants all of n1 or n2 and may accumulate.
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

// laterEnded ends a task and advances the time by a minute.
func (b *bench) laterEnded(ended string) {
	b.t.Helper()
	b.now = b.now.Add(time.Minute)
	b.exited(ended)
	b.settle()
}

// TestDirectedInsteadOfAccumulating: a claimant returns its holdings when a reservation collects for
// its job, to receive what that collects. For another job it keeps them.
func TestDirectedInsteadOfAccumulating(t *testing.T) {
	for job, want := range map[string]types.GrantPhase{"j": types.Granted, "k": types.Collecting} {
		b := gangWaits(t)
		b.laterEnded("a1")
		if g := b.grantAt("gang"); g.Phase != types.Collecting || grants.HeldOf(g.On("n1"), "cpu") != 500 {
			t.Fatalf("it has %+v", g)
		}
		b.collectsNow("r", job, map[string]types.Quantity{"n1": 1000})
		b.laterEnded("a2")
		if g := b.grantAt("gang"); g.Phase != want {
			t.Errorf("beside that of job %s it has %+v", job, g)
		}
	}
}

// TestAccumulatedGivesWay: a claimant returns its holdings to a directed reservation of higher
// priority that lacks them there. It collects again after that.
func TestAccumulatedGivesWay(t *testing.T) {
	for name, c := range map[string]struct {
		priority int
		on       string
		pool     bool
		itself   bool
		gives    bool
	}{
		"higher":       {1, "n1", false, false, true},
		"equal":        {0, "n1", false, false, false},
		"elsewhere":    {1, "n2", false, false, false},
		"of a pool":    {1, "n2", true, false, true},
		"equal's pool": {0, "n2", true, false, false},
		"for itself":   {1, "n1", false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := filled(t)
			b.put(controlplane.ResourceKey("d", "lic", types.ClusterWide), &types.Resource{Capacity: 1000})
			b.put(controlplane.JobKey("d", "k"), &types.Job{Tasks: 1})
			b.put(controlplane.ReservationKey("d", "gang"), &types.Reservation{
				Job: "j", Accumulate: true, Submitted: b.now.UnixNano(), Bundles: []types.Bundle{bundleOf(map[string]types.Quantity{"cpu": 1000, "lic": 1000})},
			})
			b.settle()
			b.laterEnded("a1")
			if g := b.grantAt("gang"); g.Phase != types.Collecting || grants.HeldOf(g.On("n1"), "cpu") != 500 {
				t.Fatalf("it has %+v", g)
			}
			asks := map[string]types.Quantity{"cpu": 1000}
			if c.pool {
				asks["lic"] = 1000
			}
			bundle := bundleOf(asks)
			bundle.Node = c.on
			bundles := []types.Bundle{bundle}
			b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{
				Collect: types.NewCollect(bundles, !c.itself), Job: "k", Submitted: b.now.UnixNano(), Priority: c.priority, Bundles: bundles,
			})
			b.settle()
			b.now = b.now.Add(2 * time.Second)
			b.settle()
			gang, r, on := b.grantAt("gang"), b.grantAt("r"), "n1"
			if c.gives && !c.pool {
				on = "n2" // the claimant has begun there instead
			}
			if gave := grants.HeldOf(gang.On("n1"), "cpu") == 0 || c.pool && grants.HeldOf(gang.On("n1"), "d:lic") == 0; gave != c.gives {
				t.Errorf("it has %+v, and the directed one %+v", gang, r)
			}
			if got := grants.HeldOf(r.On(c.on), "cpu") > 0 || grants.HeldOf(r.On(c.on), "d:lic") > 0; got != c.gives {
				t.Errorf("the directed one has %+v", r)
			}
			b.del(controlplane.ReservationKey("d", "r"))
			b.settle()
			b.laterEnded("b1")
			if g := b.grantAt("gang"); g.Phase != types.Collecting || grants.HeldOf(g.On(on), "cpu") != 500 || grants.HeldOf(g.On(on), "d:lic") != 1000 {
				t.Errorf("after that it has %+v", g)
			}
		})
	}
}

// TestAccumulatedGivesWayHere: a task gives way by its submitted priority, whatever it is raised
// to. Nothing gives way to another namespace.
func TestAccumulatedGivesWayHere(t *testing.T) {
	for ns, want := range map[string]types.Quantity{"d": 0, "e": 500} {
		b := filled(t)
		b.put(controlplane.JobKey(ns, "k"), &types.Job{Tasks: 1})
		b.task("large", map[string]types.Quantity{"cpu": 1000}, func(t *types.Task) { t.Accumulate, t.Later = true, &types.Later{Raised: 5} })
		b.settle()
		b.laterEnded("a1")
		if g := b.grantAt("large"); g.Phase != types.Collecting || grants.HeldOf(g.On("n1"), "cpu") != 500 {
			t.Fatalf("it has %+v", g)
		}
		bundle := bundleOf(map[string]types.Quantity{"cpu": 1000})
		bundle.Node = "n1"
		bundles := []types.Bundle{bundle}
		b.put(controlplane.ReservationKey(ns, "r"), &types.Reservation{
			Collect: types.NewCollect(bundles, true), Job: "k", Submitted: b.now.UnixNano(), Priority: 1, Bundles: bundles,
		})
		b.settle()
		if got := grants.HeldOf(b.grantAt("large").On("n1"), "cpu"); got != want {
			t.Errorf("beside that of namespace %s it has %d, not %d", ns, got, want)
		}
	}
}

// TestDirectedBeforeAccumulating: a reservation does not begin to accumulate while one collects for
// its job, and begins after that.
func TestDirectedBeforeAccumulating(t *testing.T) {
	b := gangWaits(t)
	b.collectsNow("r", "j", map[string]types.Quantity{"n1": 1000})
	b.laterEnded("b1")
	if g := b.grantAt("gang"); g.Phase != "" {
		t.Errorf("it has %+v", g)
	}
	b.del(controlplane.ReservationKey("d", "r"))
	b.settle()
	b.now = b.wake()
	b.settle()
	if g := b.grantAt("gang"); g.Phase != types.Collecting {
		t.Errorf("after that it has %+v", g)
	}
}

// TestDirectedAndAccumulating: a reservation of another job with the same request begins meanwhile.
func TestDirectedAndAccumulating(t *testing.T) {
	b := gangWaits(t)
	b.collectsNow("r", "j", map[string]types.Quantity{"n1": 1000})
	b.put(controlplane.JobKey("d", "k"), &types.Job{Tasks: 1})
	other := *b.core.View().Reservations[clusterID("d", "gang")].Info.V
	other.Job = "k"
	other.Submitted++
	b.put(controlplane.ReservationKey("d", "other"), &other)
	b.laterEnded("b1")
	if g := b.grantAt("other"); g.Phase != types.Collecting {
		t.Errorf("it has %+v", g)
	}
}
