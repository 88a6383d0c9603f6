package sim

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// agent is a machine and its agent, by the agents' protocol: what runs is what is
// bound in the present session of the node; nothing is reported of what is not
// bound; and what must not be kept is dead before the lease can run out.
type agent struct {
	w       *world
	name    string
	info    types.Node
	devices types.Devices
	state   state
	lease   controlplane.LeaseID
	session int64
	seen    int64
	// wanted are its bindings as its watch says, procs its processes, by the
	// keys of the bindings.
	wanted map[string]wanted
	procs  map[string]*proc
}

type state string

// The states of a machine.
const (
	up     state = "up"
	cut    state = "cut off"       // cannot reach the store
	fenced state = "fenced"        // cut off, and what must not be kept is dead
	down   state = "down"          // crashed, its lease not run out yet
	gone   state = "without lease" // its lease ran out
)

// room is the milli-cpu of a machine.
const room = 8000

// wanted is a binding as an agent sees it.
type wanted struct {
	key    controlplane.Key
	create int64
	b      *types.Binding
}

// proc is a process, or what is known of one that ended.
type proc struct {
	key    controlplane.Key
	create int64
	b      *types.Binding
	alive  bool
	exit   types.Report
	acked  types.ReportPhase
}

func (p *proc) task() string { return p.key.Namespace + "/" + p.key.ID }

func newAgent(w *world, i int) *agent {
	a := &agent{w: w, name: fmt.Sprintf("n%d", i), state: gone, wanted: make(map[string]wanted), procs: make(map[string]*proc)}
	a.info.Labels = []types.Label{{Name: "rack", Value: fmt.Sprintf("r%d", i%2)}}
	a.info.Capacity = a.capacity(i, room)
	if i < 2 {
		for k := range 4 {
			a.devices.Devices = append(a.devices.Devices, types.Device{ID: fmt.Sprintf("acme.com/gpu=%s-%d", a.name, k), Resource: types.GPU})
		}
	}
	a.register()
	a.enter()
	return a
}

func (a *agent) capacity(i int, cpu types.Quantity) types.Requests {
	amounts := map[string]types.Quantity{"cpu": cpu, "memory": 1 << 30}
	if i < 2 {
		amounts["gpu"] = 4000
	}
	return types.NewRequests(amounts)
}

// register writes what the machine has.
func (a *agent) register() {
	c := a.w.newChange()
	c.Put(controlplane.NodeKey(a.name), &a.info)
	if len(a.devices.Devices) > 0 {
		c.Put(controlplane.DevicesKey(a.name), &a.devices)
	}
	a.w.try(c)
}

// enter begins a new session: first everything ends that is not bound, or is bound
// in a session that is over.
func (a *agent) enter() {
	a.relist()
	for _, key := range a.keys() {
		p := a.procs[key]
		if p == nil {
			continue
		}
		if x, ok := a.wanted[key]; !ok || x.create != p.create || p.b.OnLoss != types.Keep {
			a.remove(p)
		}
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

// keys returns the bindings that are wanted or have a process, in order.
func (a *agent) keys() []string {
	all := slices.Collect(maps.Keys(a.procs))
	for key := range a.wanted {
		if a.procs[key] == nil {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	return all
}

func (a *agent) relist() {
	clear(a.wanted)
	page := a.w.list(controlplane.Prefix(controlplane.Bindings, a.name))
	a.seen = page.Revision
	for _, kv := range page.KVs {
		a.want(controlplane.Event{KV: kv})
	}
}

func (a *agent) want(e controlplane.Event) {
	k, ok := controlplane.Parse(e.Key)
	if !ok || k.Kind != controlplane.Bindings || k.Node != a.name {
		return
	}
	if e.Delete {
		delete(a.wanted, e.Key)
		return
	}
	b := new(types.Binding)
	if err := types.Decode(e.Value, b); err != nil {
		a.w.fail("%s: %v", a.name, err)
	}
	a.wanted[e.Key] = wanted{k, e.CreateRevision, b}
}

// deliver lets the agent's watch go on by at most n revisions.
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
			a.want(e)
		}
	}
}

// work does something about some of the bindings.
func (a *agent) work(rng *rand.Rand) {
	for _, key := range a.keys() {
		if rng.IntN(2) == 0 {
			a.advance(key, rng)
		}
	}
}

// advance does the next thing about one binding. It reports whether there was one.
// Without rng nothing ends by itself and every message arrives.
func (a *agent) advance(key string, rng *rand.Rand) bool {
	x, bound := a.wanted[key]
	p := a.procs[key]
	connected := a.state == up
	switch {
	case a.state == down || a.state == gone:
		return false
	case p == nil:
		return connected && bound && a.start(key, x)
	case connected && (!bound || x.create != p.create):
		a.remove(p)
		return true
	case p.alive && bound && x.b.Stop != nil:
		itself := rng != nil && rng.IntN(4) == 0
		a.end(p, types.Report{Stopped: !itself, ExitCode: 143})
		return true
	case p.alive && rng != nil && rng.IntN(3) == 0:
		a.end(p, types.Report{ExitCode: max(0, rng.IntN(6)-4)})
		return true
	case connected && p.alive && p.acked == "":
		return a.report(p, types.Report{Phase: types.ReportRunning, Binding: p.create, Started: 1}, rng)
	case connected && !p.alive && p.acked != types.ReportExited:
		return a.report(p, p.exit, rng)
	}
	return false
}

// start starts what is bound in this session, or is kept.
func (a *agent) start(key string, x wanted) bool {
	if x.b.Session != a.session && x.b.OnLoss != types.Keep {
		return false
	}
	p := &proc{key: x.key, create: x.create, b: x.b}
	a.procs[key] = p
	// What is kept may have ended and been reported before the machine crashed.
	var said types.Report
	if a.w.read(reportKey(x.key), &said) != 0 && said.Binding == x.create && said.Phase == types.ReportExited {
		p.exit, p.acked = said, types.ReportExited
		return true
	}
	if x.b.Session != a.session && !a.begin(x) {
		delete(a.procs, key)
		return false
	}
	if x.b.Stop != nil {
		a.end(p, types.Report{Stopped: true, Reason: "not started"})
		return true
	}
	if at := a.w.running[p.task()]; at != "" {
		a.w.fail("%s: %s is started, and runs on %s", a.name, p.task(), at)
	}
	p.alive = true
	a.w.running[p.task()] = a.name
	a.w.say("%s starts %s#%d", a.name, p.task(), p.key.Attempt)
	return true
}

// begin reports that a kept attempt of an earlier session starts again: a report of
// that session which arrives late changes nothing then.
func (a *agent) begin(x wanted) bool {
	key := reportKey(x.key)
	c := a.w.newChange()
	c.IfCreated(x.key.String(), x.create)
	c.IfUnchanged(key, a.w.get(key).ModRevision)
	c.Put(key, &types.Report{Phase: types.ReportStarting, Binding: x.create})
	return a.w.try(c)
}

// end notes how a process ended.
func (a *agent) end(p *proc, exit types.Report) {
	exit.Phase, exit.Binding = types.ReportExited, p.create
	exit.Started, exit.Ended = 1, 2
	p.exit = exit
	a.dead(p)
	a.w.say("%s: %s#%d ended, code %d stopped %t fenced %t", a.name, p.task(), p.key.Attempt, exit.ExitCode, exit.Stopped, exit.Fenced)
}

func (a *agent) dead(p *proc) {
	if p.alive {
		delete(a.w.running, p.task())
	}
	p.alive = false
}

func (a *agent) remove(p *proc) {
	a.dead(p)
	delete(a.procs, p.key.String())
}

// report writes a report if the binding is still the one it is about.
func (a *agent) report(p *proc, r types.Report, rng *rand.Rand) bool {
	key := reportKey(p.key)
	var there types.Report
	mod := a.w.read(key, &there)
	if mod != 0 && there.Binding == p.create && there.Phase == r.Phase {
		p.acked = r.Phase
		return true
	}
	c := a.w.newChange()
	c.IfCreated(p.key.String(), p.create)
	c.IfUnchanged(key, mod)
	c.Put(key, &r)
	fate := 0
	if rng != nil {
		fate = rng.IntN(12)
	}
	switch fate {
	case 1:
		a.w.late = append(a.w.late, c.Txn())
		return true
	case 2:
		return true // lost
	}
	ok := a.w.try(c)
	a.w.say("%s reports %s#%d %s: committed=%t", a.name, p.task(), p.key.Attempt, r.Phase, ok)
	if ok && fate != 3 {
		p.acked = r.Phase
	}
	return ok
}

// crash ends the agent, not what it started, and starts it again within the time to
// live of its lease: it adopts what runs.
func (a *agent) crash() {
	if a.state != up {
		return
	}
	a.relist()
	for _, p := range a.procs {
		p.acked = ""
	}
	a.w.say("%s: its agent is started again", a.name)
}

// lose brings the machine one step closer to the end of its session.
func (a *agent) lose(rng *rand.Rand) {
	switch a.state {
	case up:
		if a.state = cut; rng != nil && rng.IntN(3) == 0 {
			a.state = down
			for _, key := range a.keys() {
				if p := a.procs[key]; p != nil {
					a.remove(p)
				}
			}
		}
	case cut:
		a.state = fenced
		for _, key := range a.keys() {
			if p := a.procs[key]; p != nil && p.alive && p.b.OnLoss != types.Keep {
				a.end(p, types.Report{Fenced: true, ExitCode: 137})
			}
		}
	case fenced, down:
		a.state = gone
		a.w.store.ExpireLease(a.lease)
		a.w.check()
	}
	a.w.say("%s is %s", a.name, a.state)
}

// back brings it back, in the same session if that is not over.
func (a *agent) back(rng *rand.Rand) {
	switch a.state {
	case cut, fenced:
		a.state = up
		a.w.say("%s is back in its session", a.name)
	case gone:
		if rng == nil || rng.IntN(2) == 0 {
			a.enter()
		}
	}
}

// change changes what the machine has: less or more of it, and the health of its
// devices.
func (a *agent) change(rng *rand.Rand) {
	if a.state != up {
		return
	}
	i := slices.Index(a.w.agents, a)
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
	a.info.Capacity = a.capacity(slices.Index(a.w.agents, a), room+2000)
	for k := range a.devices.Devices {
		a.devices.Devices[k].Unhealthy = ""
	}
	a.register()
}

// reportKey is the key of the report about a binding.
func reportKey(binding controlplane.Key) string {
	binding.Kind = controlplane.Reports
	return binding.String()
}
