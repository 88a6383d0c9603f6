package keep

import (
	"context"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/esl"
)

// offer calls, for each node that has changed, the policies that want it, in rank, as far as the room of the
// node reaches. So a freed node costs as many calls as it takes tasks, however many policies wait.
func (k *loop) offer(ctx context.Context, now time.Time) {
	x := &k.seekers
	for _, node := range x.nodes() {
		for {
			if k.full(now) {
				return
			}
			var p *managedPolicy
			if room := x.room(k.view, node); room != nil {
				p = x.wants(node, room)
			}
			if p == nil {
				x.done(node)
				break
			}
			if p.queued || p.busy {
				p.seen = x.clock // it is called with this change anyway
				continue
			}
			k.turn(ctx, p, now)
			p.seen = x.clock
			if p.busy && p.claims[node] == nil {
				k.claim(p, append(p.claimed(), node), now) // it has decided something because of this node
			}
		}
	}
}

// claimed returns the nodes on which p has capacity opened.
func (p *managedPolicy) claimed() (nodes []string) {
	for node := range p.claims {
		nodes = append(nodes, node)
	}
	return nodes
}

// seek records what a policy has noted in a call about nodes that matter, and where it will have capacity
// opened once its plan is carried out.
func (k *loop) seek(p *managedPolicy, plan *esl.Plan, now time.Time) {
	x := &k.seekers
	if p.sought == nil {
		if p.wide {
			k.wide[p] = struct{}{}
		}
		x.drop(p)
		p.seen = x.clock
		return
	}
	delete(k.wide, p)
	x.set(p, p.sought)
	on := slices.Clone(p.sought.On)
	for _, s := range plan.Set {
		if s.Capacity > 0 && !s.Where.Cluster {
			on = append(on, s.Where.Nodes...)
		}
	}
	slices.Sort(on)
	k.claim(p, slices.Compact(on), now)
	p.seen = x.clock
}

// claim claims nodes for a policy: on those that it does not name itself yet, what it seeks.
func (k *loop) claim(p *managedPolicy, on []string, now time.Time) {
	to := p.sought
	if to == nil {
		return
	}
	k.seekers.claim(p, on, func(r *match.Room) {
		switch {
		case slices.Contains(to.On, r.Node.Name):
			if to.Holds != nil {
				to.Holds(r)
			}
		case to.Take != nil && !to.Alike:
			to.Take(r)
		}
	}, now)
}
