package collecting

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/types"
)

// roomFor adds a reservation of job k, of priority 5, that its maker directs.
func (b *bench) roomFor(bundles ...types.Bundle) {
	b.t.Helper()
	b.put(controlplane.JobKey("d", "k"), &types.Job{Tasks: 1})
	b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{
		Collect: types.NewCollect(bundles, true), Job: "k", Priority: 5, Submitted: b.now.UnixNano(), Bundles: bundles,
	})
	b.settle()
}

// mayCollect submits a reservation of job j that may accumulate.
func (b *bench) mayCollect(id string, priority int, amounts map[string]types.Quantity) {
	b.t.Helper()
	b.put(controlplane.ReservationKey("d", id), &types.Reservation{
		Job: "j", Accumulate: true, Priority: priority, Submitted: b.now.UnixNano(), Bundles: []types.Bundle{bundleOf(amounts)},
	})
	b.settle()
}

// pairWaits is a node with two linked devices, one held by task a.
func pairWaits(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, config{after: time.Second})
	b.gpusOn("n1", "A100/x", "A100/x")
	b.put(controlplane.JobKey("d", "j"), &types.Job{Tasks: 1})
	b.task("a", map[string]types.Quantity{"gpu": 1000, "cpu": 500})
	b.settle()
	return b
}

// aPair is two linked devices.
func aPair() types.Bundle { return bundle(2000, types.DeviceRequest{Topology: types.LinkedDevices}) }

// TestDoesNotBeginWhereItIsLacking: a candidate does not begin on capacity that a
// directed reservation of higher priority lacks, although that cannot take the free part. It begins after
// that, without an endless cycle.
func TestDoesNotBeginWhereItIsLacking(t *testing.T) {
	b := pairWaits(t)
	b.mayCollect("gang", 0, map[string]types.Quantity{"gpu": 1000, "cpu": 600})
	b.roomFor(onNode("n1", aPair()))
	before := b.core.View().Revision
	b.later(time.Minute)
	if g := b.grantAt("gang"); g.Phase != "" || b.core.View().Revision > before {
		t.Errorf("it has %+v, after %d revisions", g, b.core.View().Revision-before)
	}
	b.del(controlplane.ReservationKey("d", "r"))
	b.settle()
	b.later(2 * time.Second)
	if g := b.grantAt("gang"); grants.HeldOf(g.On("n1"), "gpu") != 1000 {
		t.Errorf("after that it has %+v", g)
	}
}

// TestGivesWayForWhatIsLacking: a claimant returns what a directed reservation above it lacks, although
// that cannot take it yet, because it lacks two linked devices.
func TestGivesWayForWhatIsLacking(t *testing.T) {
	b := pairWaits(t)
	b.mayCollect("gang", 0, map[string]types.Quantity{"gpu": 1000, "cpu": 600})
	b.later(2 * time.Second)
	b.roomFor(onNode("n1", aPair()))
	b.later(2 * time.Second)
	if g := b.grantAt("gang"); len(g.Nodes) > 0 {
		t.Errorf("it has %+v", g)
	}
	b.exited("a")
	b.later(2 * time.Second)
	if g, gang := b.grantAt("r"), b.grantAt("gang"); grants.HeldOf(g.On("n1"), "gpu") != 2000 || grants.HeldOf(gang.On("n1"), "gpu") > 0 {
		t.Errorf("the directed one has %+v, and the other %+v", g, gang)
	}
}

// TestGivesWayWhereTasksAreTaken: a claimant returns nothing to a reservation that collects nothing
// because one of its nodes takes no tasks.
func TestGivesWayWhereTasksAreTaken(t *testing.T) {
	b := pairWaits(t)
	b.task("stays", map[string]types.Quantity{"cpu": 100})
	b.settle()
	b.node("n2", 1000)
	b.mayCollect("gang", 0, map[string]types.Quantity{"gpu": 1000, "cpu": 1000})
	b.later(2 * time.Second)
	b.put(controlplane.CordonKey("n2"), &types.Cordon{})
	b.roomFor(onNode("n1", aPair()), onNode("n2", bundleOf(map[string]types.Quantity{"cpu": 500})))
	b.exited("a")
	b.later(2 * time.Second)
	if g := b.grantAt("gang"); grants.HeldOf(g.On("n1"), "gpu") != 1000 {
		t.Errorf("it has %+v", g)
	}
}

// TestOneAboveItBegins: where a candidate does not begin because of its priority, another with the
// same request does.
func TestOneAboveItBegins(t *testing.T) {
	b := filled(t)
	b.put(controlplane.JobKey("d", "j"), &types.Job{Tasks: 2})
	b.roomFor(onNode("n1", bundleOf(map[string]types.Quantity{"cpu": 1000})))
	b.put(controlplane.CordonKey("n2"), &types.Cordon{})
	large := func(id string, priority, raised int) {
		b.task(id, map[string]types.Quantity{"cpu": 1000}, ofJob("j"), func(t *types.Task) {
			t.Accumulate, t.Priority, t.Later = true, priority, &types.Later{Raised: raised}
		})
	}
	large("low", 0, 9)
	large("high", 6, 0)
	b.settle()
	b.later(time.Minute)
	if low, high := b.grantAt("low"), b.grantAt("high"); low.Phase != "" || high.Phase != types.Collecting {
		t.Errorf("they have %+v and %+v", low, high)
	}
}
