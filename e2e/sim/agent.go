package sim

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// agent is a machine and its agent, by the agents' protocol. What runs is bound in the current
// session of the node. It reports only on what is bound. Tasks without Keep are dead before the
// lease can expire.
type agent struct {
	w       *world
	name    string
	info    types.Node
	devices types.Devices
	state   state
	lease   controlplane.LeaseID
	session int64
	seen    int64
	// attempts are the attempts it manages, by the keys of their bindings.
	attempts map[string]*attempt
}

type state string

// The states of a machine.
const (
	up      state = "up"
	cut     state = "cut off"       // cannot reach the store
	fencing state = "fencing"       // cut off, and tasks without Keep are dead
	down    state = "down"          // crashed, but its lease has not expired
	gone    state = "without lease" // its lease expired
)

// room is the milli-cpu of a machine.
const room = 8000

func newAgent(w *world, i int) *agent {
	a := &agent{w: w, name: fmt.Sprintf("n%d", i), state: gone, attempts: make(map[string]*attempt)}
	a.info.Labels = []types.Label{{Name: "rack", Value: fmt.Sprintf("r%d", i%2)}}
	a.givesOut(20_000, 20_007)
	a.info.Capacity = a.capacity(i, room)
	if i < 2 {
		a.addDevices()
	}
	a.register()
	a.enter()
	return a
}

// addDevices gives the machine four GPUs, of two models.
func (a *agent) addDevices() {
	for k := range 4 {
		a.devices.Devices = append(a.devices.Devices, types.Device{
			ID: fmt.Sprintf("acme.com/gpu=%s-%d", a.name, k), Resource: types.GPU, NUMA: k % 2, Links: []string{fmt.Sprint("link-", k/2)},
			Model: fmt.Sprintf("ACME G%d00", 1+k/2), MemoryBytes: int64(1+k/2) << 35,
		})
	}
}

func (a *agent) capacity(i int, cpu types.Quantity) types.Requests {
	ports := a.info.PortLast - a.info.PortFirst + 1
	amounts := map[string]types.Quantity{"cpu": cpu, "memory": 1 << 30, "port": types.Quantity(ports) * 1000}
	if i < 2 {
		amounts["gpu"] = 4000
	}
	return types.NewRequests(amounts)
}

// givesOut sets the range of ports for tasks without a fixed number.
func (a *agent) givesOut(first, last int) { a.info.PortFirst, a.info.PortLast = first, last }

// register writes the capacity of the machine.
func (a *agent) register() {
	c := a.w.newChange()
	c.Put(controlplane.NodeKey(a.name), &a.info)
	if len(a.devices.Devices) > 0 {
		c.Put(controlplane.DevicesKey(a.name), &a.devices)
	}
	a.w.try(c)
}

// enter begins a new session. Before that, everything ends that is not bound, or is bound in an
// earlier session.
func (a *agent) enter() {
	a.relist()
	if a.declared() {
		return
	}
	for _, x := range a.all() {
		if x.binding == nil || x.binding.OnDisconnect != types.Keep {
			a.dead(x)
			delete(a.attempts, x.key.String())
			continue
		}
		a.recall(x)
	}
	a.lease, _ = a.w.store.GrantLease(context.Background(), time.Hour)
	c := a.w.newChange()
	c.IfUnchanged(controlplane.AliveKey(a.name), 0)
	c.PutOn(controlplane.AliveKey(a.name), &types.Alive{TTLSeconds: 15}, a.lease)
	if !a.w.try(c) {
		a.w.fail("%s: it is alive twice", a.name)
	}
	a.session = a.w.get(controlplane.AliveKey(a.name)).CreateRevision
	a.state = up
	a.w.say("%s is up in session %d", a.name, a.session)
}

// all returns the attempts in the order of their keys.
func (a *agent) all() []*attempt {
	out := make([]*attempt, 0, len(a.attempts))
	for _, key := range slices.Sorted(maps.Keys(a.attempts)) {
		out = append(out, a.attempts[key])
	}
	return out
}

// relist reads the bindings of the node again.
func (a *agent) relist() {
	page := a.w.list(controlplane.Prefix(controlplane.Bindings, a.name))
	a.seen = page.Revision
	there := make(map[string]bool)
	for _, kv := range page.KVs {
		there[kv.Key] = true
		a.bind(controlplane.Event{KV: kv})
	}
	for key, x := range a.attempts {
		if !there[key] {
			x.binding = nil
		}
	}
}

// bind applies a change of a binding of the node.
func (a *agent) bind(e controlplane.Event) {
	k, ok := controlplane.Parse(e.Key)
	if !ok || k.Kind != controlplane.Bindings || k.Node != a.name {
		return
	}
	x := a.attempts[e.Key]
	if e.Delete {
		if x != nil {
			x.binding = nil
		}
		return
	}
	if x == nil {
		x = &attempt{key: k, create: e.CreateRevision, seen: nodeagent.Seen{Container: nodeagent.Absent}}
		a.attempts[e.Key] = x
	}
	b := decode[types.Binding](a.w, e)
	x.binding = &b
}

// deliver advances the agent's watch by at most n revisions.
func (a *agent) deliver(n int) {
	if a.state != up {
		return
	}
	batches, compacted := a.w.since(a.seen)
	if compacted {
		a.relist()
		return
	}
	for _, b := range batches[:min(n, len(batches))] {
		a.seen = b.Revision
		for _, e := range b.Events {
			a.bind(e)
		}
	}
}

// work advances some of the attempts.
func (a *agent) work(rng *rand.Rand) {
	for _, x := range a.all() {
		if rng.IntN(2) == 0 {
			a.advance(x, rng)
		}
	}
}

// crash ends the agent, not its processes, and restarts it within the time to live of its lease: it
// adopts what runs. It has stored why it was ending an attempt.
func (a *agent) crash() {
	if a.state != up {
		return
	}
	a.relist()
	for _, x := range a.all() {
		a.recall(x)
	}
	a.w.say("%s: its agent is started again", a.name)
}

// recall reduces an attempt to what a new agent knows of it.
func (a *agent) recall(x *attempt) {
	x.seen = nodeagent.Seen{Cause: x.seen.Cause}
	x.spec = nil
	var r types.Report
	if a.w.read(reportKey(x.key), &r) != 0 && r.Binding == x.create {
		x.seen.Reported = r
	}
}

// lose brings the machine one step closer to the end of its session.
func (a *agent) lose(rng *rand.Rand) {
	switch a.state {
	case up:
		if a.state = cut; rng != nil && rng.IntN(3) == 0 {
			a.state = down
			for _, x := range a.all() {
				a.dead(x)
				x.exit = nodeagent.Exit{}
			}
		}
	case cut:
		a.state = fencing
		for _, x := range a.all() {
			for x.alive && x.binding != nil && x.binding.OnDisconnect != types.Keep && a.advance(x, nil) {
				continue
			}
		}
	case fencing, down:
		a.state = gone
		a.w.store.ExpireLease(a.lease)
		a.w.check()
	}
	a.w.say("%s is %s", a.name, a.state)
}

// back restores the machine, in the same session if that is not over.
func (a *agent) back(rng *rand.Rand) {
	switch a.state {
	case cut, fencing:
		a.state = up
		a.w.say("%s is back in its session", a.name)
	case gone:
		if rng == nil || rng.IntN(2) == 0 {
			a.enter()
		}
	}
}

// change changes the capacity of the machine, and the health of its devices.
func (a *agent) change(rng *rand.Rand) {
	if a.state != up {
		return
	}
	i := slices.Index(a.w.agents, a)
	if first := 20_000 + rng.IntN(6); rng.IntN(2) == 0 {
		a.givesOut(first, first+rng.IntN(8))
	}
	a.info.Capacity = a.capacity(i, types.Quantity(1000+rng.IntN(room/1000)*1000))
	for k := range a.devices.Devices {
		a.devices.Devices[k].Unhealthy = ""
		if rng.IntN(4) == 0 {
			a.devices.Devices[k].Unhealthy = "too hot"
		}
	}
	a.register()
	a.w.say("%s has %v", a.name, a.info.Capacity)
}

// restore makes the machine whole again.
func (a *agent) restore() {
	a.givesOut(30_000, 30_099)
	a.info.Capacity = a.capacity(slices.Index(a.w.agents, a), room+2000)
	for k := range a.devices.Devices {
		a.devices.Devices[k].Unhealthy = ""
	}
	a.register()
}
