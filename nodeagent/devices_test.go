package nodeagent_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/devices"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// changing are devices that a test changes.
type changing struct{ now atomic.Pointer[devices.Fixed] }

func (c *changing) set(ids ...string) {
	var all devices.Fixed
	for _, id := range ids {
		id, unhealthy, _ := strings.Cut(id, "!")
		all = append(all, types.Device{ID: id, Resource: types.GPU, Unhealthy: unhealthy})
	}
	c.now.Store(&all)
}

func (c *changing) Find(ctx context.Context, known []types.Device) []types.Device {
	return c.now.Load().Find(ctx, known)
}

// withGPUs runs a test with an agent of a node that has these devices.
func withGPUs(t *testing.T, rt simruntime.Config, test func(b *bench, gpus *changing), ids ...string) {
	t.Helper()
	bubble(t, rt, func(_ *testing.T, b *bench) {
		b.crash()
		gpus := new(changing)
		gpus.set(ids...)
		b.cfg.Devices = gpus
		b.start()
		test(b, gpus)
	})
}

// holding makes a binding hold a share of a device.
func holding(id string, share types.Quantity) func(*types.Binding) {
	return func(x *types.Binding) {
		x.Holds = append(x.Holds, types.Holding{Resource: types.GPU, Amount: share, Devices: []types.DeviceShare{{ID: id, Share: share}}})
	}
}

// stored returns the stored node and devices, and their revisions.
func (b *bench) stored() (types.Node, types.Devices, [2]int64) {
	b.t.Helper()
	node, devs := b.get(controlplane.NodeKey("n1")), b.get(controlplane.DevicesKey("n1"))
	var n types.Node
	var d types.Devices
	if err := types.Decode(node.Value, &n); err != nil {
		b.t.Fatal(err)
	}
	if devs.Key != "" {
		if err := types.Decode(devs.Value, &d); err != nil {
			b.t.Fatal(err)
		}
	}
	return n, d, [2]int64{node.ModRevision, devs.ModRevision}
}

// TestDevicesCome tests that a live node stores new devices and their capacity in one transaction,
// so that the capacity is never allocated without a device.
func TestDevicesCome(t *testing.T) {
	withGPUs(t, simruntime.Config{}, func(b *bench, gpus *changing) {
		if n, _, at := b.stored(); n.Capacity.Get("gpu") != 0 || at[1] != 0 {
			t.Fatalf("%+v, %v", n, at)
		}
		gpus.set("g0", "g1")
		b.pass(31 * time.Second)
		n, d, at := b.stored()
		if n.Capacity.Get("gpu") != 2000 || len(d.Devices) != 2 || at[0] != at[1] {
			t.Fatalf("%+v, %+v, %v", n, d, at)
		}
		b.pass(5 * time.Minute)
		if _, _, again := b.stored(); again != at {
			t.Errorf("stored anew, though nothing changed: %v, then %v", at, again)
		}
		gpus.set("g0", "g1!broken")
		b.pass(31 * time.Second)
		n, d, again := b.stored()
		if d.Devices[1].Unhealthy != "broken" || n.Capacity.Get("gpu") != 2000 || again[0] != at[0] || again[1] == at[1] {
			t.Errorf("%+v, %+v, %v", n, d, again)
		}
		gpus.set("g0", "g1")
		b.pass(31 * time.Second)
		if _, d, _ := b.stored(); d.Devices[1].Unhealthy != "" || d.Devices[1].UnhealthySince != 0 {
			t.Errorf("it did not come back: %+v", d)
		}
	})
}

// TestDevicesGo tests that a missing device stays listed as gone, for an hour, or for as long as a
// task holds it.
func TestDevicesGo(t *testing.T) {
	withGPUs(t, simruntime.Config{}, func(b *bench, gpus *changing) {
		b.put(controlplane.AllocatedKey("n1"), &types.Allocated{Holds: []types.Holding{{Resource: types.GPU, Amount: 1000, Devices: []types.DeviceShare{{ID: "g1", Share: 1000}}}}})
		gpus.set("g0")
		b.pass(31 * time.Second)
		gone := func(want string) {
			t.Helper()
			n, d, _ := b.stored()
			var ids []string
			for _, dev := range d.Devices {
				if (dev.Unhealthy == devices.Gone) != (dev.ID != "g0") {
					t.Errorf("%+v", dev)
				}
				ids = append(ids, dev.ID)
			}
			if got := strings.Join(ids, " "); got != want || n.Capacity.Get("gpu") != types.Quantity(1000*len(ids)) {
				t.Errorf("%s are there, want %s; capacity %v", got, want, n.Capacity)
			}
		}
		gone("g0 g1 g2")
		b.pass(time.Hour - 2*time.Minute)
		gone("g0 g1 g2")
		b.pass(4 * time.Minute)
		gone("g0 g1")
		b.crash()
		b.start()
		gone("g0 g1")
		b.put(controlplane.AllocatedKey("n1"), &types.Allocated{})
		b.pass(time.Minute)
		gone("g0")
	}, "g0", "g1", "g2")
}

// TestCapacityAndDevices tests that a resource cannot have both a capacity and devices.
func TestCapacityAndDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, simruntime.Config{})
		b.cfg.Capacity = types.NewRequests(map[string]types.Quantity{"cpu": 4000, "gpu": 4000})
		b.cfg.Devices = devices.Fixed{{ID: "g0", Resource: types.GPU}}
		agent, err := nodeagent.New(b.cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := agent.Run(ctx); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "gpu=4") || !strings.Contains(err.Error(), "gpus none") {
			t.Error(err)
		}
		if b.get(controlplane.NodeKey("n1")).Key != "" {
			t.Error("something was stored all the same")
		}
	})
	withGPUs(t, simruntime.Config{}, func(b *bench, _ *changing) {
		b.crash()
		b.cfg.Capacity = types.NewRequests(map[string]types.Quantity{"cpu": 4000, "gpu": 4000})
		b.cfg.Devices = nil
		b.start()
		n, d, at := b.stored()
		if n.Capacity.Get("gpu") != 4000 || len(d.Devices) != 0 {
			t.Errorf("devices that are left out are in the way: %+v, %+v", n, d)
		}
		gpus := new(changing)
		gpus.set()
		b.crash()
		b.cfg.Devices = gpus
		b.start()
		gpus.set("g0")
		b.pass(2 * time.Minute)
		if _, d, again := b.stored(); len(d.Devices) != 0 || again != at {
			t.Errorf("devices that came later were stored beside a capacity: %+v", d)
		}
		fpga := devices.Fixed{{ID: "g0", Resource: types.GPU}, {ID: "f0", Resource: "acme.com/fpga"}}
		gpus.now.Store(&fpga)
		b.pass(31 * time.Second)
		if n, d, _ := b.stored(); n.Capacity.Get("gpu") != 4000 || n.Capacity.Get("acme.com/fpga") != 1000 || len(d.Devices) != 1 || d.Devices[0].ID != "f0" {
			t.Errorf("devices of another resource are not stored: %+v, %+v", n, d)
		}
		broken := devices.Fixed{{ID: "g0", Resource: types.GPU}, {ID: "f0", Resource: "acme.com/fpga", Unhealthy: "broken"}}
		gpus.now.Store(&broken)
		b.pass(31 * time.Second)
		if _, d, _ := b.stored(); len(d.Devices) != 1 || d.Devices[0].Unhealthy != "broken" {
			t.Errorf("that it is not well is not stored: %+v", d)
		}
		before := b.session()
		b.store.set(true)
		b.pass(2 * time.Minute)
		b.store.set(false)
		b.pass(2 * time.Minute)
		if now := b.session(); now == 0 || now == before {
			t.Errorf("the next session is %d, after %d", now, before)
		}
	}, "g0")
}

// TestDeviceGivenOutMeanwhile tests that the agent keeps a missing device which a scheduler
// allocates while the agent drops it.
func TestDeviceGivenOutMeanwhile(t *testing.T) {
	withGPUs(t, simruntime.Config{}, func(b *bench, gpus *changing) {
		gpus.set("g0")
		b.pass(time.Hour - time.Minute)
		given := false
		b.crash()
		b.store.step = func(after bool) bool {
			if _, d, _ := b.stored(); !after && !given && len(d.Devices) == 2 {
				given = true
				b.put(controlplane.AllocatedKey("n1"), &types.Allocated{Holds: []types.Holding{{Resource: types.GPU, Amount: 1000, Devices: []types.DeviceShare{{ID: "g1", Share: 1000}}}}})
			}
			return false
		}
		b.start()
		b.pass(10 * time.Minute)
		if _, d, _ := b.stored(); !given || len(d.Devices) != 2 {
			t.Errorf("given out: %t; devices %+v", given, d.Devices)
		}
	}, "g0", "g1")
}

// TestLateDevices tests that a delayed copy of an earlier list of devices does not replace the
// stored one.
func TestLateDevices(t *testing.T) {
	withGPUs(t, simruntime.Config{}, func(b *bench, gpus *changing) {
		for _, id := range []string{"g0!broken", "g0", "g0!worse"} {
			gpus.set(id)
			b.pass(31 * time.Second)
		}
		_, _, at := b.stored()
		for _, txn := range b.store.sent {
			if _, err := b.store.Store.Commit(t.Context(), txn); err != nil {
				t.Fatal(err)
			}
		}
		if _, d, now := b.stored(); now != at || d.Devices[0].Unhealthy != "worse" {
			t.Errorf("stored anew at %v, was %v: %+v", now, at, d.Devices)
		}
	}, "g0")
}

// TestDeviceHeld tests that a device which a process of this node holds, or may hold, is not given
// to another one, whatever the store shows.
func TestDeviceHeld(t *testing.T) {
	for name, restart := range map[string]bool{"known": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			var deaf atomic.Bool
			deaf.Store(true)
			rt := simruntime.Config{Fault: func(op simruntime.Op, _ string) simruntime.Fault {
				if op == simruntime.Remove && deaf.Load() {
					return simruntime.Refused
				}
				return simruntime.NoFault
			}}
			withGPUs(t, rt, func(b *bench, _ *changing) {
				b.bind("old", holding("g0", 1000))
				synctest.Wait()
				b.alive(1)
				if restart {
					b.crash()
				}
				b.release("old")
				b.bind("new", holding("g0", 1000))
				if restart {
					b.start()
				}
				b.bind("beside", holding("g1", 500))
				b.bind("shares", holding("g1", 500))
				b.pass(5 * time.Second)
				r := b.expect("new", types.ReportStarting)
				if !strings.Contains(r.Reason, "g0") || !strings.Contains(r.Reason, "d/old (attempt 1)") {
					t.Error(r.Reason)
				}
				b.alive(3)
				deaf.Store(false)
				b.pass(10 * time.Second)
				b.expect("new", types.ReportRunning)
				b.alive(3)
			}, "g0", "g1")
		})
	}
}

// TestDeviceUnwell tests that attempts bound to an unhealthy or missing device wait for it.
func TestDeviceUnwell(t *testing.T) {
	withGPUs(t, simruntime.Config{}, func(b *bench, gpus *changing) {
		b.bind("sick", holding("g0", 1000))
		b.bind("lost", holding("g9", 500))
		b.bind("well", holding("g1", 1000))
		b.pass(5 * time.Second)
		if r := b.expect("sick", types.ReportStarting); !strings.Contains(r.Reason, "g0: it is unhealthy: too hot") {
			t.Error(r.Reason)
		}
		if r := b.expect("lost", types.ReportStarting); !strings.Contains(r.Reason, "g9: this node does not have it") {
			t.Error(r.Reason)
		}
		b.expect("well", types.ReportRunning)
		gpus.set("g0", "g1!broken", "g9")
		b.pass(35 * time.Second)
		b.expect("sick", types.ReportRunning)
		b.expect("lost", types.ReportRunning)
		b.expect("well", types.ReportRunning) // Running attempts stay.
	}, "g0!too hot", "g1")
}

// TestDeviceRenamed tests that a renamed device is allocated by its new name once no process, bound
// or not, may hold it by the old one.
func TestDeviceRenamed(t *testing.T) {
	var deaf atomic.Bool
	deaf.Store(true)
	rt := simruntime.Config{Fault: func(op simruntime.Op, _ string) simruntime.Fault {
		if op == simruntime.Remove && deaf.Load() {
			return simruntime.Refused
		}
		return simruntime.NoFault
	}}
	withGPUs(t, rt, func(b *bench, gpus *changing) {
		name := func(id string) {
			all := devices.Fixed{{ID: id, Resource: types.GPU, Bus: "0000:17:00.0"}}
			gpus.now.Store(&all)
		}
		healthy := func() string {
			_, d, _ := b.stored()
			var ids []string
			for _, dev := range d.Devices {
				if dev.Unhealthy == "" {
					ids = append(ids, dev.ID)
				}
			}
			return strings.Join(ids, " ")
		}
		name("g0")
		b.pass(2 * time.Minute)
		b.bind("old", holding("g0", 1000))
		synctest.Wait()
		b.alive(1)
		name("GPU-0")
		b.release("old")
		b.bind("new", holding("GPU-0", 1000))
		b.pass(2 * time.Minute)
		b.alive(1)
		if got := healthy(); got != "" {
			t.Errorf("%s is given out, and held by its former name", got)
		}
		b.crash()
		b.start()
		b.pass(2 * time.Minute)
		b.alive(1)
		if got := healthy(); got != "" {
			t.Errorf("%s is given out by a new agent", got)
		}
		deaf.Store(false)
		b.pass(2 * time.Minute)
		if got := healthy(); got != "GPU-0" {
			t.Errorf("%q is given out, want GPU-0: no task holds it", got)
		}
		b.expect("new", types.ReportRunning)
	})
}
