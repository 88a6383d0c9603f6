package esl

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
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
	return Invalid("%s: %q is unknown: use node, rack or zone", field, string(d))
}

// rank orders domains from the smallest to the largest.
func (d Domain) rank() int { return strings.Index("node rack zone", string(d)) }

// claim is what a policy wants of where the tasks of a group are, for finding out what
// cannot go together.
type claim struct {
	kind string
	in   Domain
	// together: all are in one. atMost, unless 0: so many in one at most. evenly: at most
	// skew more in one than in another, or as even as can be. unit, unless 0: so many each are
	// together on a node.
	together, evenly   bool
	atMost, skew, unit int
	// atOnce: all begin together, or none. inTurn: some begin when others have begun, or
	// ended. chooses: the node of each task is chosen; opens: also where room is made for it.
	// steers: they may be where there is room for what they ask for. moves: they are moved.
	// evicts: others make room for them. resizes: as many run as there is room for.
	atOnce, inTurn, chooses, opens, steers, moves, evicts, resizes, raises bool
}

// Together notes that all tasks are to be in one domain.
func (g *Group) Together(in Domain) {
	g.claims = append(g.claims, claim{kind: g.kind, in: in, together: true})
}

// IsTogether reports whether a policy has all tasks in one domain of a kind.
func (g *Group) IsTogether(d Domain) bool {
	return slices.ContainsFunc(g.claims, func(c claim) bool { return c.together && c.in == d })
}

// AtMost notes that at most n tasks are to be in one domain.
func (g *Group) AtMost(n int, in Domain) {
	g.claims = append(g.claims, claim{kind: g.kind, in: in, atMost: n})
}

// Evenly notes that at most so many more tasks are to be in one domain than in another; 0: as
// even as can be.
func (g *Group) Evenly(in Domain, skew int) {
	g.claims = append(g.claims, claim{kind: g.kind, in: in, evenly: true, skew: skew})
}

// InUnits notes that so many tasks are to be together on a node each, in all in what is given.
func (g *Group) InUnits(of int, in Domain) {
	g.claims = append(g.claims, claim{kind: g.kind, in: in, unit: of})
}

// AtOnce notes that all tasks begin together, or none.
func (g *Group) AtOnce() { g.claims = append(g.claims, claim{kind: g.kind, atOnce: true}) }

// InTurn notes that some tasks begin only when others have begun, or ended.
func (g *Group) InTurn() { g.claims = append(g.claims, claim{kind: g.kind, inTurn: true}) }

// ChoosesNodes notes that the node of each task is chosen.
func (g *Group) ChoosesNodes() {
	g.claims = append(g.claims, claim{kind: g.kind, chooses: true, opens: g.opens})
}

// Steers notes that where the tasks may be goes by where there is room for what they ask for.
func (g *Group) Steers() { g.claims = append(g.claims, claim{kind: g.kind, steers: true}) }

// Moves notes that tasks are moved onto nodes that are chosen for that.
func (g *Group) Moves() { g.claims = append(g.claims, claim{kind: g.kind, moves: true}) }

// Evicts notes that others make room for tasks.
func (g *Group) Evicts() { g.claims = append(g.claims, claim{kind: g.kind, evicts: true}) }

// Resizes notes that as many tasks run as there is room for, one by one.
func (g *Group) Resizes() { g.claims = append(g.claims, claim{kind: g.kind, resizes: true}) }

// Raises notes that what waits is raised, by what this policy alone reckons.
func (g *Group) Raises() { g.claims = append(g.claims, claim{kind: g.kind, raises: true}) }

// conflicts returns what cannot be met together.
func (g *Group) conflicts() []error {
	var errs []error
	for i, a := range g.claims {
		for j, b := range g.claims {
			if a.atOnce && b.inTurn && len(g.Tasks) > 1 {
				errs = append(errs, Invalid("policies: %s and %s exclude each other: the one has all %d tasks begin at once, the other some after others: drop one of them",
					a.kind, b.kind, len(g.Tasks)))
			}
			if a.chooses && b.chooses && i < j {
				errs = append(errs, Invalid("policies: %s and %s exclude each other: each chooses a node for every task: drop one of them", a.kind, b.kind))
			}
			if (a.steers || a.chooses) && b.moves {
				errs = append(errs, Invalid("policies: %s and %s exclude each other: the one says where tasks may be, the other moves them onto nodes that it chooses: drop one of them", a.kind, b.kind))
			}
			if a.chooses && !a.opens && b.evicts {
				errs = append(errs, Invalid("policies: %s and %s exclude each other: the one chooses nodes with room alone, the other makes room where there is none: drop one of them", a.kind, b.kind))
			}
			if a.raises && b.raises && i < j {
				errs = append(errs, Invalid("policies: %s is there twice, and each would undo what the other does: drop one of them", a.kind))
			}
			if a.resizes && (b.atOnce || b.moves || b.resizes && i < j) {
				errs = append(errs, Invalid("policies: %s and %s exclude each other: the one has as many tasks run as there is room for, each by itself, and the other decides that, too: drop one of them", a.kind, b.kind))
			}
			// Who is together in a small domain is so in every larger one.
			if a.together && b.atMost > 0 && a.in.rank() <= b.in.rank() && len(g.Tasks) > b.atMost {
				errs = append(errs, Invalid("policies: %s and %s exclude each other: all %d tasks on one %s, and at most %s: drop one of them, or have fewer tasks",
					a.kind, b.kind, len(g.Tasks), a.in, fmt.Sprintf("%d on one %s", b.atMost, b.in)))
			}
			if a.together && b.evenly && a.in.rank() <= b.in.rank() && len(g.Tasks) > max(b.skew, 1) {
				errs = append(errs, Invalid("policies: %s and %s exclude each other: the one has all %d tasks on one %s, the other %s: drop one of them",
					a.kind, b.kind, len(g.Tasks), a.in, b.evenness()))
			}
			if a.together && b.together && i < j && a.kind == b.kind {
				errs = append(errs, Invalid("policies: %s is there twice, and each time chooses where all tasks are: drop the one with %s", a.kind, larger(a.in, b.in)))
			}
			errs = append(errs, g.apartFrom(a, b)...)
		}
	}
	return errs
}

// apartFrom returns how a claim by which tasks are together on a node is excluded by another.
func (g *Group) apartFrom(a, b claim) (errs []error) {
	unit := min(a.unit, len(g.Tasks))
	switch {
	case unit < 2:
	case b.chooses:
		errs = append(errs, Invalid("policies: %s and %s exclude each other: the one has %d tasks together on a node, the other chooses a node for each: drop one of them", a.kind, b.kind, unit))
	case a.in == Node: // as of together
	case b.atMost > 0 && b.atMost < unit: // in a rack are those on a node of it, too
		errs = append(errs, Invalid("policies: perNode: %d are to be together on a node, and %s has at most %d on one %s: change one of them", a.unit, b.kind, b.atMost, b.in))
	case b.evenly && b.skew > 0 && b.skew < unit:
		errs = append(errs, Invalid("policies: perNode: %d are to be together on a node, and %s %s: have that be %d, or drop one of them", a.unit, b.kind, b.evenness(), unit))
	}
	return errs
}

// evenness says how evenly tasks are to be.
func (c claim) evenness() string {
	if c.skew == 0 {
		return "has as many on each " + string(c.in)
	}
	return fmt.Sprintf("has at most %d more on one %s than on another", c.skew, c.in)
}

// larger returns the larger of two domains.
func larger(a, b Domain) Domain {
	if a.rank() > b.rank() {
		return a
	}
	return b
}

// CheckDomains refuses tasks that are all to be there at once, and of which so many may be in one
// domain at most that they go into no more than are registered, or than one of those has that
// all are to be in. Precondition.
func (g *Group) CheckDomains() error {
	within := Domain("")
	for _, c := range g.claims {
		if c.together && (within == "" || c.in.rank() < within.rank()) {
			within = c.in
		}
	}
	var errs []error
	for _, c := range g.claims {
		if c.atMost == 0 || g.Nodes == nil {
			continue
		}
		most, known := mostDomains(g.Nodes, c.in, within)
		switch {
		case !known || most*c.atMost >= len(g.Tasks):
		case within == "":
			errs = append(errs, types.Errorf(types.Precondition, "all %d tasks are to begin at once, and %s has at most %d on one %s, of which there are %d: have fewer tasks, or add nodes first",
				len(g.Tasks), c.kind, c.atMost, c.in, most))
		default:
			errs = append(errs, types.Errorf(types.Precondition, "all %d tasks are to begin at once, on one %s, and %s has at most %d on one %s, of which no %s has more than %d: have fewer tasks, or drop one of the two",
				len(g.Tasks), within, c.kind, c.atMost, c.in, within, most))
		}
	}
	return Join(errs)
}

// mostDomains returns how many domains of a kind the nodes are in, or, if within is given, how
// many those of one domain of that kind are in at most; known is false if it is not known.
func mostDomains(nodes map[string]*types.Node, in, within Domain) (most int, known bool) {
	domains := make(map[string]map[string]bool)
	for name, n := range nodes {
		if n == nil {
			return 0, false
		}
		at := func(d Domain) string {
			if d == Node {
				return name
			}
			return n.Label(string(d))
		}
		of, one := "", at(in)
		if within != "" {
			of = at(within)
		}
		if one == "" || within != "" && of == "" {
			continue
		}
		if domains[of] == nil {
			domains[of] = make(map[string]bool)
		}
		domains[of][one] = true
		most = max(most, len(domains[of]))
	}
	return most, true
}

// Join makes one Invalid error of many, nil of none.
func Join(errs []error) error {
	err := errors.Join(errs...)
	if err == nil {
		return nil
	}
	return types.Errorf(types.ClassOf(err), "%w", err)
}

// Of returns the name of the domain that a node is in; "" if it is in none.
func (d Domain) Of(n *cluster.Node) string {
	switch {
	case d == Node || d == "":
		return n.Name
	case n.Info.V == nil:
		return ""
	}
	return n.Info.V.Label(string(d))
}

// Or returns the domain, or another one if it is not given.
func (d Domain) Or(other Domain) Domain { return cmp.Or(d, other) }

// Choices are what it may be.
func (Domain) Choices() []string { return []string{string(Node), string(Rack), string(Zone)} }
