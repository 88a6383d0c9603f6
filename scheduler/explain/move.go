package explain

import (
	"fmt"
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/types"
)

// moves says which nodes a granted reservation leaves, and what its bundles there wait for.
func (e *explainer) moves(r *cluster.Reservation, from []types.GrantNode) string {
	spots := grants.PlacementsOn(e.v, r, &types.Grant{Nodes: from})
	text := fmt.Sprintf("What it has on %s, %s, moves", list(nodeNames(from)), e.whyLeft(from))
	for i, s := range spots {
		if n := e.firstFit(s.Needs); n != nil {
			holds := e.d.Hold(n, s.Needs)
			e.d.Take(n, holds)
			defer e.d.Undo(n, holds)
			continue
		}
		clause := e.clause(e.find(r.ID.Namespace, s.Needs)).Summary
		if len(spots) > 1 {
			text += fmt.Sprintf(" when all %d bundles have room: %d %s, and the next one", len(spots), i, plural(i, "has", "have"))
		} else {
			text += " when it has room, and"
		}
		return sentence(text+" "+clause, "")
	}
	return sentence(text+" now: there is room elsewhere", "")
}

// whyLeft says why the reservation leaves nodes.
func (e *explainer) whyLeft(from []types.GrantNode) string {
	drained := slices.ContainsFunc(from, func(at types.GrantNode) bool { return e.v.Nodes[at.Node].Alive.V != nil })
	lost := slices.ContainsFunc(from, func(at types.GrantNode) bool { return e.v.Nodes[at.Node].Alive.V == nil })
	what := "lost"
	switch {
	case drained && lost:
		what = "lost or drained"
	case drained:
		what = "drained"
	}
	return "which " + is(len(from)) + " " + what
}

func nodeNames(of []types.GrantNode) []string {
	var names []string
	for _, at := range of {
		names = append(names, at.Node)
	}
	return names
}

// moving says what a task waits for that draws on a moving reservation.
func (e *explainer) moving(t *cluster.Task, x *why.Explanation) {
	seen := make(map[string]bool)
	for _, q := range t.Info.V.Requests {
		r := reservationOf(e.v, t.ID.Namespace, q.Name)
		if r == nil || seen[r.ID.ID] {
			continue
		}
		seen[r.ID.ID] = true
		if from := grants.LeftNodes(e.v, r); len(from) > 0 {
			note(x, "Reservation %s: %s", r.ID.ID, e.moves(r, from))
		}
	}
}

// reservationOf returns the existing reservation that a request draws on; nil if there is none.
func reservationOf(v *cluster.View, ns, name string) *cluster.Reservation {
	rid := types.Resolve(ns, name)
	if !rid.Scoped() {
		return nil
	}
	ns, _, id := rid.Split()
	return v.Reservations[cluster.ID{Namespace: ns, ID: id}]
}
