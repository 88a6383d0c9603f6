package sim

import (
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// guard is a class of compares of the scheduler's transactions.
type guard struct {
	name string
	is   func(controlplane.Key) bool
}

func ofKind(kind controlplane.Kind) func(controlplane.Key) bool {
	return func(k controlplane.Key) bool { return k.Kind == kind }
}

func resourceAt(where func(string) bool) func(controlplane.Key) bool {
	return func(k controlplane.Key) bool { return k.Kind == controlplane.Resources && where(k.Where) }
}

// guards are all classes: docs/guards.md explains each.
func guards() []guard {
	return []guard{
		{"allocated of a node", func(k controlplane.Key) bool { return k.Kind == controlplane.Allocated && k.Where == "" }},
		{"allocated of a pool", func(k controlplane.Key) bool { return k.Kind == controlplane.Allocated && k.Where != "" }},
		{"node", ofKind(controlplane.Nodes)},
		{"cordon", ofKind(controlplane.Cordons)},
		{"alive", ofKind(controlplane.Alive)},
		{"devices", ofKind(controlplane.Devices)},
		{"task", ofKind(controlplane.Tasks)},
		{"status", ofKind(controlplane.Statuses)},
		{"namespace", ofKind(controlplane.Namespaces)},
		{"resource of the node", resourceAt(func(w string) bool { return w != types.EveryNode && w != types.ClusterWide })},
		{"resource of every node", resourceAt(func(w string) bool { return w == types.EveryNode })},
		{"resource of the cluster", resourceAt(func(w string) bool { return w == types.ClusterWide })},
		{"grant", ofKind(controlplane.Grants)},
		{"reservation", ofKind(controlplane.Reservations)},
		{"binding", ofKind(controlplane.Bindings)},
		{"report", ofKind(controlplane.Reports)},
		{"provided", ofKind(controlplane.Provided)},
		{"leader", ofKind(controlplane.Leaders)},
	}
}

// TestGuards: random runs fail soon without the most important compares.
func TestGuards(t *testing.T) {
	for _, g := range guards() {
		switch g.name {
		case "allocated of a node", "node", "cordon", "alive", "status", "grant", "reservation":
		default:
			continue // only races find these soon
		}
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(60) {
				cfg := configOf(5 * seed)
				cfg.Shared, cfg.Gather, cfg.Unguarded = false, 1, g.unguarded()
				all := Steps(seed, steps)
				if g.name == "grant" || g.name == "reservation" {
					all = reserving(all)
				}
				if f, _ := Run(cfg, all, nil); f != nil {
					t.Logf("seed %d: %v", seed, f)
					return
				}
			}
			t.Error("nothing fails without it")
		})
	}
}

// reserving replaces submissions of tasks with reservations: otherwise too few are granted for two
// schedulers to grant the same one soon.
func reserving(all []Step) []Step {
	for i := range all {
		s := &all[i]
		if s.Kind == Submit {
			s.Kind = []Kind{Reserve, Unreserve}[s.B%2]
		}
	}
	return all
}

// unguarded picks the compares of the class.
func (g guard) unguarded() func(controlplane.Compare) bool {
	return func(c controlplane.Compare) bool {
		key := c.Key
		if c.Target == controlplane.Newest {
			key += "any" // any key of the range
		}
		k, ok := controlplane.Parse(key)
		return ok && g.is(k)
	}
}
