package keep

import (
	"reflect"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// does reports whether two plans make the same changes. Texts and RequeueAfter do not count.
func does(p *esl.Plan, other *esl.Plan) bool {
	a, b := *p, *other
	a.RequeueAfter, b.RequeueAfter = time.Time{}, time.Time{}
	a.Reason, b.Reason, a.Idle, b.Idle = "", "", "", ""
	return reflect.DeepEqual(a, b)
}

// transaction makes a transaction of a plan of a policy in the namespace of c. What it sets, evicts and
// unreserves may be of other namespaces: see esl.State.Ref. Invalid: a namespace is none.
func transaction(p *esl.Plan, c *controlplane.Client, reads ...controlplane.ReadSet) (*controlplane.Transaction, error) {
	t := c.Begin(append(reads, p.If)...)
	var wrong error
	in := func(ref string) (*controlplane.Transaction, string) {
		at, of := esl.Named(c.Namespace(), ref), c
		if at.Namespace != c.Namespace() {
			var err error
			if of, err = controlplane.New(c.Store(), at.Namespace); err != nil {
				wrong, of = err, c
			}
		}
		return t.In(of), at.ID
	}
	for _, ref := range p.Unreserve {
		t, id := in(ref)
		t.Unreserve(id)
	}
	t.In(c)
	for _, r := range p.Reserve {
		t.Reserve(r.ID, r.Reservation)
	}
	for _, s := range p.Set {
		t, name := in(s.Name)
		t.SetResource(name, s.Capacity, s.Where, s.Options)
	}
	for _, e := range p.Evict {
		t, id := in(e.Task)
		t.EvictFor(id, e.Attempt, e.Reason)
	}
	t.In(c)
	for _, s := range p.Stop {
		t.Stop(s.Task, s.StopOptions)
	}
	for _, r := range p.Request {
		t.Request(r.Task, r.Requests)
	}
	for _, r := range p.Raise {
		if r.Reservation {
			t.RaiseReservation(r.ID, r.By)
		} else {
			t.Raise(r.ID, r.By)
		}
	}
	return t, wrong
}

// reads returns the revisions of the resources that the plan sets, as in the view. If one has
// changed since, the plan does not commit.
func reads(p *esl.Plan, v *cluster.View, ns string) controlplane.ReadSet {
	reads := make(controlplane.ReadSet)
	for _, s := range p.Set {
		rid, at := types.Resolve(ns, s.Name), esl.Named(ns, s.Name)
		read := func(where string, c *cluster.Cell[types.Resource]) {
			revision := int64(0)
			if c != nil {
				revision = c.Mod
			}
			reads[controlplane.ResourceKey(at.Namespace, at.ID, where)] = revision
		}
		switch {
		case s.Where.Cluster:
			if pool := v.Pools[rid]; pool != nil {
				read(types.ClusterWide, &pool.Info)
			} else {
				read(types.ClusterWide, nil)
			}
		case s.Where.Among != nil:
		case len(s.Where.Nodes) > 0:
			for _, name := range s.Where.Nodes {
				if n := v.Nodes[name]; n != nil {
					read(name, n.Own[rid])
				}
			}
		default:
			read(types.EveryNode, v.Everywhere[rid])
		}
	}
	return reads
}
