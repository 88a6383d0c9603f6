package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/grants"
	"github.com/escher-sched/escher/types"
)

// newAging is a bench in which a reservation accumulates after a second.
func newAging(t *testing.T) *bench { return newBench(t, Config{AccumulateAfter: time.Second}) }

// reserve submits bundles that may accumulate, and lets that begin.
func (b *bench) reserve(bundles ...types.Bundle) {
	b.t.Helper()
	b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{Accumulate: true, Submitted: b.now.UnixNano(), Bundles: bundles})
	b.settle()
	b.later(2 * time.Second)
}

// later advances the time and settles.
func (b *bench) later(d time.Duration) {
	b.t.Helper()
	b.now = b.now.Add(d)
	b.settle()
}

func bundleOf(amounts map[string]types.Quantity) types.Bundle {
	return types.Bundle{Requests: types.NewRequests(amounts)}
}

// grant returns the grant of the reservation; an empty one if there is none.
func (b *bench) grant() *types.Grant {
	if r := b.core.view.Reservations[clusterID("d", "r")]; r != nil && r.Grant.V != nil {
		return r.Grant.V
	}
	return &types.Grant{}
}

// TestAccumulatingIsGrantedElsewhere: a reservation chooses nodes by what is free when it begins.
// It is granted wherever all of it fits later.
func TestAccumulatingIsGrantedElsewhere(t *testing.T) {
	b := newAging(t)
	b.node("n1", 1000)
	b.node("n2", 1000)
	b.task("on1", map[string]types.Quantity{"cpu": 100, "node/n1": 1})
	b.task("on2", map[string]types.Quantity{"cpu": 500, "node/n2": 1})
	b.settle()
	b.reserve(bundleOf(map[string]types.Quantity{"cpu": 1000}))
	if got := b.collected(); got != 900 {
		t.Fatalf("it has collected %d on n1", got)
	}
	b.exited("on2")
	b.settle()
	b.later(searchEvery)
	if g := b.grant(); g.Phase != types.Granted || g.Bundles[0] != "n2" || b.core.view.Leaders[grants.AccumulateRole] != nil {
		t.Errorf("its grant is %+v", g)
	}
	b.task("small", map[string]types.Quantity{"cpu": 900})
	b.settle()
	b.expect("small", "bound on n1")
}

// TestGrantedElsewhereAfterAnAnswer: capacity on a node in flight during the search leads to the
// grant once the node is answered, although nothing becomes free then.
func TestGrantedElsewhereAfterAnAnswer(t *testing.T) {
	b := newAging(t)
	b.node("n1", 1000)
	b.node("n2", 3000)
	b.task("on1", map[string]types.Quantity{"cpu": 100, "node/n1": 1})
	b.task("on2", map[string]types.Quantity{"cpu": 2500, "node/n2": 1})
	b.settle()
	b.reserve(bundleOf(map[string]types.Quantity{"cpu": 1000}))
	b.exited("on2")
	b.settle()
	b.task("small", map[string]types.Quantity{"cpu": 100, "node/n2": 1})
	b.see()
	d, answer := b.commit()
	b.now = b.now.Add(searchEvery)
	if drafts := b.core.Next(b.now); len(drafts) != 0 {
		t.Fatalf("%d drafts", len(drafts))
	}
	b.done(d, answer)
	b.settle()
	b.later(searchEvery)
	if g := b.grant(); g.Phase != types.Granted || g.Bundles[0] != "n2" {
		t.Errorf("its grant is %+v", g)
	}
}

// TestNothingIsLentOfWhatIsGrantedElsewhere: capacity returned by the draft that grants a
// reservation elsewhere is not lent as well: it exists once.
func TestNothingIsLentOfWhatIsGrantedElsewhere(t *testing.T) {
	short := func(t *types.Task) { t.MaxRun = 10 * time.Second }
	b := newAging(t)
	b.node("n1", 1000)
	b.node("n2", 1000)
	b.task("on1", map[string]types.Quantity{"cpu": 100, "node/n1": 1}, func(t *types.Task) { t.MaxRun = time.Hour })
	b.task("on2", map[string]types.Quantity{"cpu": 500, "node/n2": 1})
	b.settle()
	b.reserve(bundleOf(map[string]types.Quantity{"cpu": 1000}))
	b.exited("on2")
	b.settle()
	b.task("short", map[string]types.Quantity{"cpu": 950, "node/n1": 1}, short)
	b.now = b.now.Add(searchEvery)
	b.see()
	b.done(b.commit())
	b.settle()
	if g := b.grant(); g.Phase != types.Granted || g.Bundles[0] != "n2" {
		t.Errorf("its grant is %+v", g)
	}
	b.expect("short", "pending")
	b.exited("on1")
	b.settle()
	b.expect("short", "bound on n1")
}

// TestFullDraftGivesNothingAway: capacity freed in a draft without space for its collection is
// collected in the next draft.
func TestFullDraftGivesNothingAway(t *testing.T) {
	for ended := 1; ended <= 10; ended++ {
		b := newLimitedBench(t, controlplane.Limits{Ops: 40, Bytes: 1 << 20}, Config{AccumulateAfter: time.Second})
		b.node("n1", 1000)
		for i := range 10 {
			b.task(fmt.Sprintf("t%d", i), map[string]types.Quantity{"cpu": 100})
		}
		b.settle()
		b.reserve(bundleOf(map[string]types.Quantity{"cpu": 1000}))
		for i := range ended {
			b.exited(fmt.Sprintf("t%d", i))
			b.task(fmt.Sprintf("small%d", i), map[string]types.Quantity{"cpu": 100})
		}
		b.settle()
		if got := b.collected(); got != types.Quantity(ended)*100 {
			t.Errorf("of %d it has collected %d", ended*100, got)
		}
	}
}

// TestNothingIsGivenAwayWhileACollectionIsInFlight: capacity that becomes free meanwhile on another
// of its nodes goes to the reservation.
func TestNothingIsGivenAwayWhileACollectionIsInFlight(t *testing.T) {
	b := newAging(t)
	for _, n := range []string{"n1", "n2"} {
		b.node(n, 1000)
		for i := range 2 {
			b.task(fmt.Sprintf("%s-%d", n, i), map[string]types.Quantity{"cpu": 500, "node/" + n: 1})
		}
	}
	b.settle()
	b.reserve(bundleOf(map[string]types.Quantity{"cpu": 1000}), bundleOf(map[string]types.Quantity{"cpu": 1000}))
	b.task("small", map[string]types.Quantity{"cpu": 500})
	b.settle()
	b.exited("n1-0")
	b.release("n1-0")
	b.see()
	collect, collected := b.commit()
	b.exited("n2-0")
	b.release("n2-0")
	b.see()
	if drafts := b.core.Next(b.now); len(drafts) > 0 {
		t.Errorf("it decides %+v while it is not known what is collected", drafts[0].Binds)
	}
	b.done(collect, collected)
	b.settle()
	b.expect("small", "pending")
}

// release ends an exited attempt, as another scheduler would.
func (b *bench) release(id string) {
	b.t.Helper()
	b.see()
	d := draft.New(b.core.view, b.store.Limits(), 7)
	task := b.core.view.Task(clusterID("d", id))
	d.Act(draft.EndExited, task, task.Bindings[0], b.now)
	d.Seal()
	if res, err := b.store.Commit(b.t.Context(), d.Change.Txn()); err != nil || !res.Committed {
		b.t.Fatal(res, err)
	}
}

// TestDevicesAreCollectedByBundle: parts of devices do not add up to devices, nor devices to parts.
func TestDevicesAreCollectedByBundle(t *testing.T) {
	for _, x := range []struct {
		used, want []types.Quantity
		bundles    []types.Quantity
	}{
		{used: []types.Quantity{500, 500}, bundles: []types.Quantity{500, 500}, want: []types.Quantity{500, 500}},
		{used: []types.Quantity{0, 0}, bundles: []types.Quantity{700, 700}, want: []types.Quantity{700, 700}},
		{used: []types.Quantity{0, 700}, bundles: []types.Quantity{300, 1000}, want: []types.Quantity{1000, 300}},
		{used: []types.Quantity{100, 700}, bundles: []types.Quantity{300, 1000}, want: []types.Quantity{300}},
	} {
		b := newAging(t)
		b.node("n1", 1000)
		b.devices("n1", len(x.used))
		for i, q := range x.used {
			// Each pair fills one device, until all devices are named.
			if q > 0 {
				b.task(fmt.Sprintf("hog%d", i), map[string]types.Quantity{"gpu": q})
				b.task(fmt.Sprintf("rest%d", i), map[string]types.Quantity{"gpu": match.Whole - q})
				b.settle()
			}
		}
		for i, q := range x.used {
			if q > 0 {
				b.exited(fmt.Sprintf("rest%d", i))
			}
		}
		b.task("hog", map[string]types.Quantity{"cpu": 1000})
		b.settle()
		var bundles []types.Bundle
		for _, q := range x.bundles {
			bundles = append(bundles, bundleOf(map[string]types.Quantity{"cpu": 500, "gpu": q}))
		}
		b.reserve(bundles...)
		var got []types.Quantity
		for _, h := range b.grant().On("n1") {
			for _, dev := range h.Devices {
				got = append(got, dev.Share)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(x.want) {
			t.Errorf("%v are used and %v asked for: it has collected %v, want %v", x.used, x.bundles, got, x.want)
		}
	}
}

// devices gives a node n GPUs.
func (b *bench) devices(node string, n int) {
	b.t.Helper()
	d := &types.Devices{}
	for i := range n {
		d.Devices = append(d.Devices, types.Device{ID: fmt.Sprintf("g%d", i), Resource: types.GPU})
	}
	b.putDevices(node, d)
}

// putDevices gives a node GPUs.
func (b *bench) putDevices(node string, d *types.Devices) {
	b.t.Helper()
	b.put(controlplane.DevicesKey(node), d, controlplane.NodeKey(node), &types.Node{
		Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 1000, "gpu": types.Quantity(len(d.Devices)) * match.Whole}),
	})
}

// TestWhatIsCollectedOutlastsALostNode: holdings on the remaining nodes stay, although no node can
// replace the lost one.
func TestWhatIsCollectedOutlastsALostNode(t *testing.T) {
	b := newAging(t)
	b.node("n1", 1000)
	b.node("n2", 2000)
	b.task("hog", map[string]types.Quantity{"cpu": 400, "node/n1": 1})
	b.settle()
	b.reserve(bundleOf(map[string]types.Quantity{"cpu": 1000}), bundleOf(map[string]types.Quantity{"cpu": 2000}))
	if got := b.collected(); got != 600 {
		t.Fatalf("it has collected %d on n1", got)
	}
	b.task("small", map[string]types.Quantity{"cpu": 600})
	b.del(controlplane.AliveKey("n2"))
	b.settle()
	if got := b.collected(); got != 600 {
		t.Errorf("it has %d left on n1", got)
	}
	b.expect("small", "pending")
	b.node("n3", 2000)
	b.exited("hog")
	b.settle()
	b.later(searchEvery)
	if g := b.grant(); g.Phase != types.Granted {
		t.Errorf("its grant is %+v", g)
	}
}

// TestSearchesAreRare: a reservation too large for every node is searched for only after a change.
func TestSearchesAreRare(t *testing.T) {
	b := newAging(t)
	b.node("n1", 1000)
	b.reserve(bundleOf(map[string]types.Quantity{"cpu": 2000}))
	first := b.core.accum.places.at
	if at := b.core.Wake(); !at.IsZero() {
		t.Errorf("it wakes at %s, and nothing changes", at)
	}
	for i := range 5 {
		b.put(controlplane.NodeKey("n1"), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 1000 + types.Quantity(i)})})
		b.later(time.Millisecond)
	}
	if b.core.accum.places.at != first {
		t.Error("it was searched for again at once")
	}
	if at := b.core.Wake(); at.UnixNano() != first+int64(searchEvery) {
		t.Errorf("it wakes at %s", at)
	}
}
