package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// drain begins the drain of a node, in one of the ways.
func (p *applications) drain(rng *rand.Rand) {
	node := pick(p.w.agents, rng.Uint32()).name
	cordon := types.Cordon{Reason: "maintenance"}
	key := controlplane.CordonKey(node)
	mod := p.w.read(key, &cordon)
	cordon.Drain = []types.DrainMode{types.DrainMove, types.DrainMove, types.DrainStop, types.DrainFinish}[rng.IntN(4)]
	cordon.DrainBy, cordon.Grace = 0, time.Duration(rng.IntN(3))
	if cordon.Drain == types.DrainFinish {
		cordon.DrainBy = p.w.now.Add(time.Duration(rng.IntN(20)) * time.Second).UnixNano()
	}
	c := p.w.newChange()
	c.IfUnchanged(key, mod)
	c.Put(key, &cordon)
	p.w.try(c)
	p.w.say("%s is drained: %s", node, cordon.Drain)
}

// drainLook runs the drainer once, or a new one without state that takes over.
func (w *world) drainLook(another bool) {
	if w.drainer == nil || another {
		w.drainer = server.NewDrainer(w.store, nil, server.Options{})
	}
	before := w.store.Revision()
	if err := w.drainer.Once(context.Background(), w.now); err != nil {
		w.fail("drain: %v", err)
	}
	w.seen["told to leave"] += int(w.store.Revision() - before)
	w.say("the drainer looked")
}

// declareDead declares a machine dead whose session is over, as an administrator would.
func (a *agent) declareDead() {
	if a.state != gone {
		return
	}
	var cordon types.Cordon
	key := controlplane.CordonKey(a.name)
	mod := a.w.read(key, &cordon)
	if cordon.Dead {
		return
	}
	for _, x := range a.all() {
		a.dead(x)
		x.exit = nodeagent.Exit{}
	}
	cordon.Dead = true
	c := a.w.newChange()
	c.IfUnchanged(controlplane.AliveKey(a.name), 0)
	c.IfUnchanged(key, mod)
	c.Put(key, &cordon)
	if !a.w.try(c) {
		a.w.fail("%s: it cannot be declared dead", a.name)
	}
	a.w.seen["machines declared dead"]++
	a.w.say("%s is declared dead", a.name)
}

// declared reports whether the returning machine was declared dead, with Keep tasks not given up
// yet: then it is not alive, and nothing runs on it.
func (a *agent) declared() bool {
	var cordon types.Cordon
	if a.w.read(controlplane.CordonKey(a.name), &cordon); !cordon.Dead {
		return false
	}
	kept := false
	for _, x := range a.all() {
		if a.dead(x); x.binding != nil && x.binding.OnDisconnect == types.Keep {
			kept = true
			continue
		}
		delete(a.attempts, x.key.String())
	}
	return kept
}
