package sim

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// bench is a world that a test steps by hand.
type bench struct {
	*world
	t *testing.T
}

func newBench(t *testing.T, cfg Config) *bench {
	t.Helper()
	return &bench{newWorld(cfg, nil), t}
}

// put writes keys and values, and fails the test if that is refused.
func (b *bench) put(kvs ...any) {
	b.t.Helper()
	c := b.newChange()
	for i := 0; i < len(kvs); i += 2 {
		c.Put(kvs[i].(string), kvs[i+1].(types.Message))
	}
	if !b.try(c) {
		b.t.Fatal("refused")
	}
}

func (b *bench) delete(keys ...string) {
	b.t.Helper()
	c := b.newChange()
	for _, key := range keys {
		c.Delete(key)
	}
	if !b.try(c) {
		b.t.Fatal("refused")
	}
}

// need makes a request vector of names and amounts.
func need(pairs ...any) types.Requests {
	amounts := make(map[string]types.Quantity)
	for i := 0; i < len(pairs); i += 2 {
		amounts[pairs[i].(string)] = types.Quantity(pairs[i+1].(int))
	}
	return types.NewRequests(amounts)
}

// task submits a task of namespace a.
func (b *bench) task(id string, requests types.Requests, edit ...func(*types.Task)) {
	b.t.Helper()
	t := &types.Task{Requests: requests, Submitted: b.now.UnixNano()}
	for _, f := range edit {
		f(t)
	}
	b.put(controlplane.TaskKey("a", id), t)
	b.apps.tasks = append(b.apps.tasks, ref{"a", id})
}

func by(scheduler string) func(*types.Task) { return func(t *types.Task) { t.Scheduler = scheduler } }

// resource sets a resource of namespace a; on a node it belongs to the node's session.
func (b *bench) resource(name, where string, capacity types.Quantity) {
	b.t.Helper()
	r := &types.Resource{Capacity: capacity}
	for _, a := range b.agents {
		if a.name == where {
			r.NodeSession = a.session
		}
	}
	b.put(controlplane.ResourceKey("a", name, where), r)
}

// reserve requests bundles.
func (b *bench) reserve(id string, edit func(*types.Reservation), bundles ...types.Bundle) {
	b.t.Helper()
	r := &types.Reservation{Bundles: bundles, Submitted: b.now.UnixNano()}
	if edit != nil {
		edit(r)
	}
	b.put(controlplane.ReservationKey("a", id), r)
}

func bundle(node string, pairs ...any) types.Bundle {
	return types.Bundle{Node: node, Requests: need(pairs...)}
}

// drafts lets a scheduler see everything and decide.
func (b *bench) drafts(i int) {
	b.t.Helper()
	m := b.members[i]
	m.deliver(1 << 30)
	m.decide()
}

// sends commits all unsent drafts of a scheduler, and returns the number of refusals.
func (b *bench) sends(i int) (refused int) {
	m := b.members[i]
	for len(m.flights) > 0 {
		f := m.flights[0]
		if f.answer == nil {
			m.send(f)
		}
		if !f.answer.Committed {
			refused++
		}
		m.done(f)
	}
	return refused
}

// schedule lets a scheduler do all it can.
func (b *bench) schedule(i int) {
	for {
		b.drafts(i)
		if len(b.members[i].flights) == 0 {
			return
		}
		b.sends(i)
	}
}

// agentsWork lets the agents do all they can, without ending processes.
func (b *bench) agentsWork() {
	for _, a := range b.agents {
		a.deliver(1 << 30)
		for _, x := range a.all() {
			for a.advance(x, nil) {
				continue
			}
		}
	}
}

// exit ends the process of a task by itself.
func (b *bench) exit(id string, code int) {
	b.t.Helper()
	for _, a := range b.agents {
		for _, x := range a.all() {
			if x.task() == "a/"+id && x.alive {
				a.ends(x, code)
				return
			}
		}
	}
	b.t.Fatalf("%s does not run", id)
}

// end ends the process of a task, and has that reported.
func (b *bench) end(id string, code int) {
	b.t.Helper()
	b.exit(id, code)
	b.agentsWork()
}

// is fails the test unless a task is in the phase, on the node if one is given.
func (b *bench) is(id string, phase types.Phase, node string) {
	b.t.Helper()
	if s := b.status(ref{"a", id}); s.Phase != phase || node != "" && s.Node != node {
		b.t.Errorf("%s is %s on %q (%s), want %s on %q", id, s.Phase, s.Node, s.Reason, phase, node)
	}
}

// ok fails the test if there are findings.
func (b *bench) ok() {
	b.t.Helper()
	for _, f := range b.findings {
		b.t.Error(f)
	}
}

func (b *bench) later(d time.Duration) { b.now = b.now.Add(d) }

// calm lets every part do all it can now: time does not pass, and nothing ends by itself.
func (b *bench) calm() {
	b.t.Helper()
	for range rounds {
		if !b.advance() {
			return
		}
	}
	b.t.Fatal("it does not come to rest")
}
