package esl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/escher-sched/escher/types"
)

// A Domain is what tasks can be together in, or apart by: node, rack or zone. A node is
// in one rack, and that in one zone, by their labels.
type Domain string

// The domains.
const (
	Node Domain = "node"
	Rack Domain = "rack"
	Zone Domain = "zone"
)

// Validate checks that it is one.
func (d Domain) Validate(field string) error {
	switch d {
	case Node, Rack, Zone:
		return nil
	}
	return invalid("%s: %q is unknown: use node, rack or zone", field, string(d))
}

// rank orders domains from the smallest to the largest.
func (d Domain) rank() int { return strings.Index("node rack zone", string(d)) }

// claim is what a policy wants of where the tasks of a group are, for finding out what
// cannot go together.
type claim struct {
	kind string
	in   Domain
	// together: all are in one. atMost, unless 0: so many in one at most.
	together bool
	atMost   int
	// atOnce: all begin together, or none. inTurn: some begin when others have begun, or
	// ended. chooses: the node of each task is chosen. steers: they may be where there is room
	// for what they ask for. fills: that is on nodes with room alone. moves: they are moved.
	// evicts: others make room for them.
	atOnce, inTurn, chooses, steers, fills, moves, evicts bool
}

// Together notes that all tasks are to be in one domain.
func (g *Group) Together(in Domain) {
	g.claims = append(g.claims, claim{kind: g.kind, in: in, together: true})
}

// AtMost notes that at most n tasks are to be in one domain.
func (g *Group) AtMost(n int, in Domain) {
	g.claims = append(g.claims, claim{kind: g.kind, in: in, atMost: n})
}

// AtOnce notes that all tasks begin together, or none.
func (g *Group) AtOnce() { g.claims = append(g.claims, claim{kind: g.kind, atOnce: true}) }

// InTurn notes that some tasks begin only when others have begun, or ended.
func (g *Group) InTurn() { g.claims = append(g.claims, claim{kind: g.kind, inTurn: true}) }

// chooses notes that the node of each task is chosen.
func (g *Group) chooses() { g.claims = append(g.claims, claim{kind: g.kind, chooses: true}) }

// steers notes that where the tasks may be goes by where there is room for what they ask for.
func (g *Group) steers() { g.claims = append(g.claims, claim{kind: g.kind, steers: true}) }

// fills is steers, and notes that nowhere else they are waited for.
func (g *Group) fills() { g.claims = append(g.claims, claim{kind: g.kind, steers: true, fills: true}) }

// moves notes that tasks are moved onto nodes that are chosen for that.
func (g *Group) moves() { g.claims = append(g.claims, claim{kind: g.kind, moves: true}) }

// evicts notes that others make room for tasks.
func (g *Group) evicts() { g.claims = append(g.claims, claim{kind: g.kind, evicts: true}) }

// conflicts returns what cannot be met together.
func (g *Group) conflicts() []error {
	var errs []error
	for i, a := range g.claims {
		for j, b := range g.claims {
			if a.atOnce && b.inTurn && len(g.Tasks) > 1 {
				errs = append(errs, invalid("policies: %s and %s exclude each other: the one has all %d tasks begin at once, the other some after others: drop one of them",
					a.kind, b.kind, len(g.Tasks)))
			}
			if a.chooses && b.chooses && i < j {
				errs = append(errs, invalid("policies: %s and %s exclude each other: each chooses a node for every task: drop one of them", a.kind, b.kind))
			}
			if (a.steers || a.chooses) && b.moves {
				errs = append(errs, invalid("policies: %s and %s exclude each other: the one says where tasks may be, the other moves them onto nodes that it chooses: drop one of them", a.kind, b.kind))
			}
			if (a.fills || a.chooses) && b.evicts {
				errs = append(errs, invalid("policies: %s and %s exclude each other: the one has tasks begin on nodes with room alone, the other makes room where there is none: drop one of them", a.kind, b.kind))
			}
			// Who is together in a small domain is so in every larger one.
			if a.together && b.atMost > 0 && a.in.rank() <= b.in.rank() && len(g.Tasks) > b.atMost {
				errs = append(errs, invalid("policies: %s and %s exclude each other: all %d tasks on one %s, and at most %s: drop one of them, or have fewer tasks",
					a.kind, b.kind, len(g.Tasks), a.in, fmt.Sprintf("%d on one %s", b.atMost, b.in)))
			}
		}
	}
	return errs
}

// tooFew refuses tasks that are all to be there at once, and of which so many may be in one
// domain at most that they go into no more than are registered. Precondition.
func (g *Group) tooFew() error {
	var errs []error
	for _, c := range g.claims {
		if c.atMost == 0 || g.Nodes == nil {
			continue
		}
		domains := make(map[string]bool)
		for name, n := range g.Nodes {
			switch {
			case n == nil:
				return nil // nobody knows
			case c.in != Node:
				name = n.Label(string(c.in))
			}
			domains[name] = true
		}
		if delete(domains, ""); len(domains)*c.atMost < len(g.Tasks) {
			errs = append(errs, types.Errorf(types.Precondition, "all %d tasks are to begin at once, and %s has at most %d on one %s, of which there are %d: have fewer tasks, or add nodes first",
				len(g.Tasks), c.kind, c.atMost, c.in, len(domains)))
		}
	}
	return joined(errs)
}

// joined makes one Invalid error of many, nil of none.
func joined(errs []error) error {
	err := errors.Join(errs...)
	if err == nil {
		return nil
	}
	return types.Errorf(types.ClassOf(err), "%w", err)
}
