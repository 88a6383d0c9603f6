package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/relabel"
	"github.com/escher-sched/escher/types"
)

// race is a decision of scheduler s0, and an event between it and its commit. With the guard the
// commit is refused; without it an invariant is broken.
type race struct {
	guard string
	name  string
	// before is the state that s0 decides on, between the event in between.
	before, between func(*bench)
}

func races() []race {
	return slices.Concat(nodeRaces(), deviceRaces(), taskRaces(), resourceRaces(), grantRaces(), moveRaces(), preemptRaces(), grantingRaces())
}

// nodeRaces are about the state and the allocated amounts of a node.
func nodeRaces() []race {
	return []race{
		{"allocated of a node", "two schedulers take the same room", func(b *bench) {
			b.task("t1", need("cpu", room-1000, "node/n0", 1), by("s0"))
			b.task("t2", need("cpu", room-1000, "node/n0", 1), by("s1"))
		}, func(b *bench) { b.schedule(1) }},
		{"allocated of a node", "two schedulers give out the same port", func(b *bench) {
			b.task("t1", need("port", 1000, "node/n0", 1), by("s0"))
			b.task("t2", need("port", 1000, "node/n0", 1), by("s1"))
		}, func(b *bench) { b.schedule(1) }},
		{"allocated of a node", "what is to be released is released, and the room given away", func(b *bench) {
			b.task("t1", need("cpu", room-1000, "node/n0", 1))
			b.schedule(1)
			b.agentsWork()
			b.end("t1", 0)
		}, func(b *bench) {
			b.schedule(1)
			b.task("t2", need("cpu", room-1000, "node/n0", 1), by("s1"))
			b.schedule(1)
		}},
		{"allocated of a pool", "two schedulers take the last licence", func(b *bench) {
			b.resource("lic", "*", 1000)
			b.task("t1", need("lic", 1000, "node/n0", 1), by("s0"))
			b.task("t2", need("lic", 1000, "node/n1", 1), by("s1"))
		}, func(b *bench) { b.schedule(1) }},
		{"allocated of a pool", "another scheduler comes in between two in flight", func(b *bench) {
			b.resource("lic", "*", 2000)
			b.task("t0", need("lic", 1000, "node/n0", 1), by("s0"))
			b.drafts(0)
			b.task("t1", need("lic", 1000, "node/n1", 1), by("s0"))
			b.task("t2", need("lic", 1000, "node/n0", 1), by("s1"))
		}, func(b *bench) {
			m := b.members[0]
			m.send(m.flights[0])
			b.schedule(1)
		}},
		{"node", "capacity is lowered", func(b *bench) {
			b.task("t1", need("cpu", room-1000, "node/n0", 1))
		}, func(b *bench) {
			b.agents[0].info.Capacity = need("cpu", 1000)
			b.agents[0].register()
		}},
		{"node", "the range of ports moves", func(b *bench) {
			b.task("t1", need("port", 1000, "node/n0", 1))
		}, func(b *bench) {
			b.agents[0].givesOut(30_000, 30_007)
			b.agents[0].register()
		}},
		{"node", "an administrator takes its label away", func(b *bench) {
			b.put(controlplane.ResourceKey("a", "slot", types.EveryNode), &types.Resource{
				Capacity: 1, Selector: &types.Selector{Labels: []types.Label{{Name: "rack", Value: "r0"}}},
			})
			b.task("t1", need("slot", 1, "node/n0", 1))
		}, func(b *bench) {
			if changed, err := relabel.Apply(&b.agents[0].info, relabel.Change{Remove: []string{"rack"}}); err != nil || !changed {
				b.t.Fatal(changed, err)
			}
			b.agents[0].register()
		}},
		{"cordon", "the node is cordoned", func(b *bench) {
			b.task("t1", need("node/n0", 1))
		}, func(b *bench) { b.put(controlplane.CordonKey("n0"), &types.Cordon{}) }},
		{"alive", "the session ends", func(b *bench) {
			b.task("t1", need("node/n0", 1))
		}, func(b *bench) { b.lost(0) }},
		{"alive", "the node is back in another session", func(b *bench) {
			b.task("t1", need("node/n0", 1))
		}, func(b *bench) {
			b.lost(0)
			b.agents[0].enter()
		}},
	}
}

// deviceRaces are about devices.
func deviceRaces() []race {
	return []race{
		{"devices", "the device fails", func(b *bench) {
			b.task("t1", need("gpu", 4000, "node/n0", 1))
		}, func(b *bench) {
			b.agents[0].devices.Devices[2].Unhealthy = "too hot"
			b.put(controlplane.DevicesKey("n0"), &b.agents[0].devices)
		}},
		{"devices", "they turn out to be of another model", func(b *bench) {
			b.task("t1", need("gpu", 2000, "node/n0", 1), wants("gpu", "G200"))
		}, func(b *bench) { b.remodel(0) }},
		{"devices", "those of a reservation turn out to be of another model", func(b *bench) {
			b.reserve("r", nil, bundle("n0", "gpu", 4000))
			b.schedule(0)
			b.task("t1", need("gpu@r", 2000), wants("gpu@r", "G200"))
		}, func(b *bench) { b.remodel(0) }},
		{"devices", "a device of a reservation fails", func(b *bench) {
			b.reserve("r", nil, bundle("n0", "gpu", 4000))
			b.schedule(0)
			b.task("t1", need("gpu@r", 4000))
		}, func(b *bench) {
			b.agents[0].devices.Devices[2].Unhealthy = "too hot"
			b.put(controlplane.DevicesKey("n0"), &b.agents[0].devices)
		}},
	}
}

// taskRaces are about tasks and the state of their attempts.
func taskRaces() []race {
	return []race{
		{"task", "it is stopped", func(b *bench) {
			b.task("t1", need("cpu", 100))
		}, func(b *bench) { b.apps.halt(ref{"a", "t1"}) }},
		{"status", "two schedulers bind the same task", func(b *bench) {
			b.delete(controlplane.NodeKey("n1"))
			b.task("t0", need("cpu", 1000))
			b.schedule(1)
			b.task("t1", need("cpu", 100))
		}, func(b *bench) {
			b.agents[1].register()
			b.schedule(1)
		}},
		{"status", "it is bound before its deadline, and seen later", func(b *bench) {
			b.task("t1", need("cpu", 100), deadline(b.now.Add(time.Minute)))
			b.drafts(1)
			b.later(time.Hour)
		}, func(b *bench) { b.sends(1) }},
		{"namespace", "a quota is set", func(b *bench) {
			b.task("t1", need("cpu", 100))
		}, func(b *bench) {
			b.quota()
		}},
		{"binding", "what is to be stopped is released", func(b *bench) {
			b.task("t1", need("cpu", 100))
			b.schedule(1)
			b.agentsWork()
			b.apps.halt(ref{"a", "t1"})
		}, func(b *bench) {
			b.end("t1", 0)
			b.schedule(1)
		}},
		{"report", "what provides while it runs ends", func(b *bench) {
			b.task("t1", need("cpu", 100), provides("p", types.WhenRunning))
			b.schedule(1)
			b.agentsWork()
			b.schedule(1)
			b.task("t2", need("p", 1000))
		}, func(b *bench) { b.end("t1", 0) }},
		{"report", "it is run again once more", func(b *bench) {
			b.task("t1", need("cpu", 100))
			b.schedule(1)
			b.agentsWork()
			b.schedule(1)
			b.again("t1")
		}, func(b *bench) { b.again("t1") }},
		{"report", "a report comes after the node was lost", func(b *bench) {
			b.task("t1", need("cpu", 100, "node/n0", 1))
			b.schedule(1)
			a := b.agents[0]
			a.deliver(1 << 30)
			a.lose(nil)
			a.lose(nil)
			a.lose(nil)
		}, func(b *bench) {
			a := b.agents[0]
			for _, x := range a.all() {
				a.report(x, &types.Report{Phase: types.ReportRunning, Binding: x.create}, nil)
			}
		}},
	}
}

// resourceRaces are about ephemeral resources.
func resourceRaces() []race {
	return []race{
		{"resource of the node", "it is lowered", func(b *bench) {
			b.resource("x", "n0", 1000)
			b.task("t1", need("x", 1000))
		}, func(b *bench) { b.resource("x", "n0", 500) }},
		{"resource of the node", "the node gets less than the others", func(b *bench) {
			b.resource("x", "+", 1000)
			b.task("t1", need("x", 1000, "node/n0", 1))
		}, func(b *bench) { b.resource("x", "n0", 0) }},
		{"resource of every node", "it is removed", func(b *bench) {
			b.resource("x", "+", 1000)
			b.task("t1", need("x", 1000))
		}, func(b *bench) { b.delete(controlplane.ResourceKey("a", "x", "+")) }},
		{"resource of the cluster", "the pool is lowered", func(b *bench) {
			b.resource("x", "*", 1000)
			b.task("t1", need("x", 1000))
		}, func(b *bench) { b.resource("x", "*", 500) }},
		{"resource of the cluster", "what a task provides becomes a pool", func(b *bench) {
			b.task("t1", need("cpu", 100), provides("p", types.WhenBound))
			b.schedule(1)
			b.task("t2", need("p", 1000))
		}, func(b *bench) { b.resource("p", "*", 500) }},
		{"resource of the cluster", "what a task left behind becomes a pool", func(b *bench) {
			b.task("t1", need("cpu", 100), provides("p", types.WhenSucceeded))
			b.schedule(1)
			b.agentsWork()
			b.end("t1", 0)
			b.schedule(1)
			b.task("t2", need("p", 1000))
		}, func(b *bench) { b.resource("p", "*", 500) }},
		{"resource of the node", "it is removed, and becomes a pool", func(b *bench) {
			b.resource("x", "n0", 1000)
			b.task("t1", need("x", 1000))
		}, func(b *bench) {
			b.delete(controlplane.ResourceKey("a", "x", "n0"))
			b.resource("x", "*", 1000)
		}},
		{"resource of every node", "it is removed, and becomes a pool", func(b *bench) {
			b.resource("x", "+", 1000)
			b.task("t1", need("x", 1000))
		}, func(b *bench) {
			b.delete(controlplane.ResourceKey("a", "x", "+"))
			b.resource("x", "*", 1000)
		}},
	}
}

// grantRaces are about reservations and grants, and resources left behind by tasks.
func grantRaces() []race {
	return []race{
		{"namespace", "a quota is set while a reservation is completed", func(b *bench) {
			b.quota()
			b.reserve("r", directed("n0"), bundle("", "cpu", room))
			b.later(time.Minute)
			b.schedule(0) // everything is held except the quota
			b.delete(controlplane.NamespaceKey("a"))
		}, func(b *bench) { b.quota() }},
		{"devices", "those that a reservation has collected turn out to be of another model", func(b *bench) {
			b.task("t1", need("cpu", 1000, "node/n0", 1))
			b.schedule(0)
			b.agentsWork()
			b.reserve("r", directed("n0"), wanting("G200", bundle("n0", "gpu", 1000, "cpu", room)))
			b.later(time.Minute)
			b.schedule(0) // the devices are held
			b.end("t1", 0)
		}, func(b *bench) { b.remodel(0) }},
		{"grant", "two schedulers grant the same reservation", func(b *bench) {
			b.delete(controlplane.NodeKey("n1"))
			b.task("t0", need("cpu", 1000))
			b.schedule(1)
			b.reserve("r", nil, bundle("", "cpu", 1000))
		}, func(b *bench) {
			b.agents[1].register()
			b.schedule(1)
		}},
		{"reservation", "it is deleted", func(b *bench) {
			b.reserve("r", nil, bundle("", "cpu", 1000))
		}, func(b *bench) { b.delete(controlplane.ReservationKey("a", "r")) }},
		{"provided", "what was left behind is taken away", func(b *bench) {
			b.task("t1", need("cpu", 100), provides("p", types.WhenSucceeded))
			b.schedule(1)
			b.agentsWork()
			b.end("t1", 0)
			b.schedule(1)
			b.task("t2", need("p", 1000))
		}, func(b *bench) {
			left := b.list(controlplane.Prefix(controlplane.Provided)).KVs
			b.delete(left[0].Key)
		}},
		{"reservation", "it is directed to collect elsewhere", func(b *bench) {
			b.reserve("r", directed("n0"), bundle("", "cpu", room), bundle("", "memory", 1<<50))
			b.later(time.Minute)
		}, func(b *bench) { b.redirect("r", "n1") }},
		{"task", "it is directed to collect elsewhere", func(b *bench) {
			b.task("t1", need("cpu", 1000, "node/n0", 1))
			b.task("t2", need("cpu", 1000, "node/n1", 1))
			b.schedule(0)
			b.task("large", need("cpu", room), func(t *types.Task) {
				t.Accumulate, t.Later = true, &types.Later{Collect: &types.Collect{On: []string{"n0"}}}
			})
		}, func(b *bench) {
			var t types.Task
			b.read(controlplane.TaskKey("a", "large"), &t)
			t.Later = nil
			b.put(controlplane.TaskKey("a", "large"), &t)
		}},
	}
}

// quota sets the cpu quota of the namespace to 0.
func (b *bench) quota() {
	b.t.Helper()
	b.put(controlplane.ResourceKey("admin", "q", "*"), &types.Resource{},
		controlplane.NamespaceKey("a"), &types.Namespace{Quotas: []types.Quota{{Resource: types.CPU, Pool: "admin:q"}}})
}

func accumulates(r *types.Reservation) { r.Accumulate = true }

// directed makes a reservation collect all of its bundles on a node.
func directed(node string) func(*types.Reservation) {
	return func(r *types.Reservation) {
		r.Accumulate, r.Collect = true, &types.Collect{}
		for range r.Bundles {
			r.Collect.On = append(r.Collect.On, node)
		}
	}
}

// redirect makes a reservation collect on another node.
func (b *bench) redirect(id, node string) {
	b.t.Helper()
	var r types.Reservation
	b.read(controlplane.ReservationKey("a", id), &r)
	directed(node)(&r)
	b.put(controlplane.ReservationKey("a", id), &r)
}

func provides(name string, when types.When) func(*types.Task) {
	return func(t *types.Task) { t.Provides = []types.Provide{{Name: name, Amount: 1000, When: when}} }
}

// lost ends the session of a node.
func (b *bench) lost(i int) {
	a := b.agents[i]
	for range 3 {
		a.lose(nil)
	}
	if a.state != gone {
		b.t.Fatal(a.state)
	}
}

// run plays a race, without the compares in the transactions of s0 that unguarded picks.
func (r race) run(t *testing.T, unguarded func(controlplane.Compare) bool) (refused int, findings []string) {
	b := newBench(t, Config{Seed: 1, Schedulers: 2, Nodes: 2, Tasks: 10})
	r.before(b)
	b.ok()
	b.cfg.Unguarded = unguarded
	b.drafts(0)
	b.cfg.Unguarded = nil
	if len(b.members[0].flights) == 0 {
		t.Fatal("s0 decides nothing")
	}
	r.between(b)
	b.ok()
	refused = b.sends(0)
	return refused, b.findings
}

// TestRaces: with every compare there are no findings. TestUnguarded: without the compares of a
// race there are.
func TestRaces(t *testing.T) {
	for _, r := range races() {
		t.Run(r.guard+"/"+strings.ReplaceAll(r.name, " ", "-"), func(t *testing.T) {
			refused, findings := r.run(t, nil)
			if refused == 0 || len(findings) > 0 {
				t.Errorf("%d refused, found %v", refused, findings)
			}
		})
	}
}

// TestUnguarded: each class of compares is needed. See docs/guards.md.
func TestUnguarded(t *testing.T) {
	played := make(map[string]bool)
	for _, r := range races() {
		played[r.guard] = true
		t.Run(r.guard+"/"+strings.ReplaceAll(r.name, " ", "-"), func(t *testing.T) {
			refused, findings := r.run(t, r.unguarded(t))
			if refused > 0 || len(findings) == 0 {
				t.Errorf("%d refused, found %v", refused, findings)
			}
			t.Log(findings)
		})
	}
	for _, g := range guards() {
		if !played[g.name] {
			t.Errorf("no race is about the compare of %s", g.name)
		}
	}
}

func (r race) unguarded(t *testing.T) func(controlplane.Compare) bool {
	for _, g := range guards() {
		if g.name == r.guard {
			return g.unguarded()
		}
	}
	t.Fatalf("there is no guard %q", r.guard)
	return nil
}

// wants makes a task request devices of a model.
func wants(resource, model string) func(*types.Task) {
	return func(t *types.Task) {
		t.Devices = append(t.Devices, types.DeviceRequest{Resource: resource, Models: []string{model}})
	}
}

// wanting makes a bundle request devices of a model.
func wanting(model string, b types.Bundle) types.Bundle {
	b.Devices = wanted(types.DeviceRequest{Models: []string{model}})
	return b
}

// remodel changes the model of the devices of a node.
func (b *bench) remodel(i int) {
	a := b.agents[i]
	for k := range a.devices.Devices {
		a.devices.Devices[k].Model = "ACME G900"
	}
	b.put(controlplane.DevicesKey(a.name), &a.devices)
}
