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
}

// Together notes that all tasks are to be in one domain.
func (g *Group) Together(in Domain) {
	g.claims = append(g.claims, claim{kind: g.kind, in: in, together: true})
}

// AtMost notes that at most n tasks are to be in one domain.
func (g *Group) AtMost(n int, in Domain) {
	g.claims = append(g.claims, claim{kind: g.kind, in: in, atMost: n})
}

// conflicts returns what cannot be met together.
func (g *Group) conflicts() []error {
	var errs []error
	for _, a := range g.claims {
		for _, b := range g.claims {
			// Who is together in a small domain is so in every larger one.
			if a.together && b.atMost > 0 && a.in.rank() <= b.in.rank() && len(g.Tasks) > b.atMost {
				errs = append(errs, invalid("policies: %s and %s exclude each other: all %d tasks on one %s, and at most %s: drop one of them, or have fewer tasks",
					a.kind, b.kind, len(g.Tasks), a.in, fmt.Sprintf("%d on one %s", b.atMost, b.in)))
			}
		}
	}
	return errs
}

// joined makes one Invalid error of many, nil of none.
func joined(errs []error) error {
	err := errors.Join(errs...)
	if err == nil {
		return nil
	}
	return types.Errorf(types.ClassOf(err), "%w", err)
}
