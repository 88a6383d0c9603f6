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

// A Domain is a place that tasks share or avoid: node, rack or zone. Labels put a node in one rack,
// and the rack in one zone.
type Domain string

// The domains.
const (
	Node Domain = "node"
	Rack Domain = "rack"
	Zone Domain = "zone"
)

// Validate checks that the domain is one of these.
func (d Domain) Validate(field string) error {
	switch d {
	case Node, Rack, Zone:
		return nil
	}
	return Invalid("%s: %q is unknown: use node, rack or zone", field, string(d))
}

// rank orders domains from the smallest to the largest.
func (d Domain) rank() int { return strings.Index("node rack zone", string(d)) }

// claim is what a policy demands of the placement of a group, to find policies that exclude one
// another.
type claim struct {
	kind string
	in   Domain
	// together: all tasks in one domain. atMost, unless 0: at most this many in one. evenly: at
	// most skew more in one than in another, 0 as even as possible. unit, unless 0: this many tasks
	// share each node.
	together, evenly   bool
	atMost, skew, unit int
	// atOnce: all tasks begin together, or none. inTurn: some begin when others have begun or
	// ended. chooses: the policy chooses the node of each task; opens: also where capacity is being
	// made for it. steers: tasks go where their requests fit. moves: the policy moves tasks.
	// evicts: it evicts others for them. resizes: as many run as fit. raises: see Raises. few: the
	// tasks are on few nodes; many: on many.
	// borrows: what the tasks hold may be taken back.
	atOnce, inTurn, chooses, opens, steers, moves, evicts, resizes, raises, few, many, borrows bool
}

// Together notes that all tasks share one domain.
func (g *Group) Together(in Domain) {
	g.claims = append(g.claims, claim{kind: g.kind, in: in, together: true})
}

// IsTogether reports whether a policy puts all tasks in one domain of a kind.
func (g *Group) IsTogether(d Domain) bool {
	return slices.ContainsFunc(g.claims, func(c claim) bool { return c.together && c.in == d })
}

// AtMost notes that one domain holds at most n tasks.
func (g *Group) AtMost(n int, in Domain) {
	g.claims = append(g.claims, claim{kind: g.kind, in: in, atMost: n})
}

// Evenly notes that one domain holds at most skew more tasks than another; 0 means as even as
// possible.
func (g *Group) Evenly(in Domain, skew int) {
	g.claims = append(g.claims, claim{kind: g.kind, in: in, evenly: true, skew: skew})
}

// InUnits notes that units of so many tasks share a node each, all units within one domain.
func (g *Group) InUnits(of int, in Domain) {
	g.claims = append(g.claims, claim{kind: g.kind, in: in, unit: of})
}

// AtOnce notes that all tasks begin together, or none.
func (g *Group) AtOnce() { g.claims = append(g.claims, claim{kind: g.kind, atOnce: true}) }

// InTurn notes that some tasks begin only when others have begun or ended.
func (g *Group) InTurn() { g.claims = append(g.claims, claim{kind: g.kind, inTurn: true}) }

// ChoosesNodes notes that the policy chooses the node of each task.
func (g *Group) ChoosesNodes() {
	g.claims = append(g.claims, claim{kind: g.kind, chooses: true, opens: g.opens})
}

// Steers notes that the policy allows tasks only on nodes where their requests fit.
func (g *Group) Steers() { g.claims = append(g.claims, claim{kind: g.kind, steers: true}) }

// Moves notes that the policy moves tasks to nodes of its choice.
func (g *Group) Moves() { g.claims = append(g.claims, claim{kind: g.kind, moves: true}) }

// Evicts notes that the policy evicts other tasks to make capacity.
func (g *Group) Evicts() { g.claims = append(g.claims, claim{kind: g.kind, evicts: true}) }

// Resizes notes that as many tasks run as fit, one by one.
func (g *Group) Resizes() { g.claims = append(g.claims, claim{kind: g.kind, resizes: true}) }

// OnFew notes that the policy wants the tasks on few nodes.
func (g *Group) OnFew() { g.claims = append(g.claims, claim{kind: g.kind, few: true}) }

// OnMany notes that the policy wants the tasks on many nodes.
func (g *Group) OnMany() { g.claims = append(g.claims, claim{kind: g.kind, many: true}) }

// Raises notes that the policy alone computes how far waiting tasks are raised.
func (g *Group) Raises() { g.claims = append(g.claims, claim{kind: g.kind, raises: true}) }

// Borrows notes that what the tasks hold may be taken back at any time, from each by itself.
func (g *Group) Borrows() { g.claims = append(g.claims, claim{kind: g.kind, borrows: true}) }

// conflicts returns an error for each pair of claims that exclude each other.
func (g *Group) conflicts() []error {
	var errs []error
	for i, a := range g.claims {
		for j, b := range g.claims {
			if a.atOnce && b.inTurn && len(g.Tasks) > 1 {
				errs = append(errs, Invalid("policies: %s and %s exclude each other: the one has all %d tasks begin at once, the other some after others: drop one of them",
					a.kind, b.kind, len(g.Tasks)))
			}
			if a.borrows && (b.atOnce || b.resizes) {
				errs = append(errs, Invalid("policies: %s and %s exclude each other: the one lends capacity that may be wanted back, the other reserves it: drop one of them", a.kind, b.kind))
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
			if a.few && b.many {
				errs = append(errs, Invalid("policies: %s and %s exclude each other: the one wants the tasks on few nodes, the other on many: drop one of them", a.kind, b.kind))
			}
			if a.raises && b.raises && i < j {
				errs = append(errs, raiseTwice(a, b))
			}
			if a.resizes && (b.atOnce || b.moves || b.resizes && i < j) {
				errs = append(errs, Invalid("policies: %s and %s exclude each other: the one has as many tasks run as there is room for, each by itself, and the other decides that, too: drop one of them", a.kind, b.kind))
			}
			// Tasks together in a small domain are together in every larger one.
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

// raiseTwice returns the error for two policies that raise waiting tasks.
func raiseTwice(a, b claim) error {
	if a.kind == b.kind {
		return Invalid("policies: %s is there twice, and each would undo what the other does: drop one of them", a.kind)
	}
	return Invalid("policies: %s and %s exclude each other: each alone says how far a waiting task is raised: drop one of them", a.kind, b.kind)
}

// apartFrom returns the errors where claim b excludes the units of claim a.
func (g *Group) apartFrom(a, b claim) (errs []error) {
	unit := min(a.unit, len(g.Tasks))
	switch {
	case unit < 2:
	case b.chooses:
		errs = append(errs, Invalid("policies: %s and %s exclude each other: the one has %d tasks together on a node, the other chooses a node for each: drop one of them", a.kind, b.kind, unit))
	case a.in == Node: // as with together
	case b.atMost > 0 && b.atMost < unit: // tasks on one node are in one rack, too
		errs = append(errs, Invalid("policies: perNode: %d are to be together on a node, and %s has at most %d on one %s: change one of them", a.unit, b.kind, b.atMost, b.in))
	case b.evenly && b.skew > 0 && b.skew < unit:
		errs = append(errs, Invalid("policies: perNode: %d are to be together on a node, and %s %s: have that be %d, or drop one of them", a.unit, b.kind, b.evenness(), unit))
	}
	return errs
}

// evenness describes how evenly tasks are spread.
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

// CheckDomains refuses tasks that begin at once if they need more domains than are registered, or
// than the domain that holds them all has. Precondition.
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
	return Join(errs...)
}

// MostTasks returns how many tasks of the job the nodes of the group hold at most, and the policy that
// says so; "" means no bound.
func (g *Group) MostTasks() (most int, kind string) {
	for _, c := range g.claims {
		if domains, known := mostDomains(g.Nodes, c.in, ""); c.atMost > 0 && known && (kind == "" || domains*c.atMost < most) {
			most, kind = domains*c.atMost, c.kind
		}
	}
	return most, kind
}

// mostDomains returns how many domains of kind in the nodes have; with within, the most that one
// domain of that kind has. known is false if the description of a node cannot be read.
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

// Join makes one Invalid error of several; nil of none.
func Join(errs ...error) error {
	err := errors.Join(errs...)
	if err == nil {
		return nil
	}
	return types.Errorf(types.ClassOf(err), "%w", err)
}

// Of returns the name of the domain of a node; "" means none.
func (d Domain) Of(n *cluster.Node) string {
	switch {
	case d == Node || d == "":
		return n.Name
	case n.Info.V == nil:
		return ""
	}
	return n.Info.V.Label(string(d))
}

// Or returns the domain, or other if the domain is empty.
func (d Domain) Or(other Domain) Domain { return cmp.Or(d, other) }

// Choices returns the valid values.
func (Domain) Choices() []string { return []string{string(Node), string(Rack), string(Zone)} }
