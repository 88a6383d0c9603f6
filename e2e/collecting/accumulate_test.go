package collecting

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/types"
)

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
	if g := b.grant(); g.Phase != types.Granted || g.Bundles[0] != "n2" {
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
		b := newLimitedBench(t, controlplane.Limits{Ops: 40, Bytes: 1 << 20}, config{after: time.Second})
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
	b.node("n3", 2600) // open to others until the library directs the collection there
	b.exited("hog")
	b.settle()
	b.expect("small", "bound on n3")
	b.later(searchEvery)
	if g := b.grant(); g.Phase != types.Granted {
		t.Errorf("its grant is %+v", g)
	}
}
