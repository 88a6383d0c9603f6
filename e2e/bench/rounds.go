package bench

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/escher-sched/escher/types"
)

// figures are what one measurement found, by name, with the unit in the name.
type figures map[string]float64

// Names of figures that several measurements have.
const (
	rate       = "rate"       // what the arm measures, a second
	violations = "violations" // what the audit found
)

// arm is one of the things that are compared: it is measured once a round, on a cluster
// of its own.
type arm struct {
	name    string
	measure func(context.Context, Config) (figures, error)
}

// samples are the figures of all rounds, by the names of arm and figure.
type samples map[string]map[string][]float64

// of returns a figure of an arm, round by round.
func (s samples) of(arm, figure string) []float64 { return s[arm][figure] }

// figures returns the names of the figures of an arm.
func (s samples) figures(arm string) []string { return slices.Sorted(maps.Keys(s[arm])) }

// violations returns those of some arms.
func (s samples) violations(arms ...string) []float64 {
	var all []float64
	for _, a := range arms {
		all = append(all, s[a][violations]...)
	}
	return all
}

// interleave measures the arms round by round, every other round the last one first: what
// drifts meets all of them.
func interleave(ctx context.Context, cfg Config, arms ...arm) (samples, error) {
	all := make(samples)
	cfg.progress.total(cfg.Rounds * len(arms))
	for n := range cfg.Rounds {
		turn := slices.Clone(arms)
		if n%2 == 1 {
			slices.Reverse(turn)
		}
		for _, a := range turn {
			label := fmt.Sprintf("%s: round %d of %d: %s", cfg.Scenario, n+1, cfg.Rounds, a.name)
			cfg.progress.step(label)
			one := cfg
			one.label = strings.ReplaceAll(a.name, " ", "-")
			found, err := a.measure(ctx, one)
			if err != nil {
				return nil, types.Errorf(types.ClassOf(err), "%s: %w", label, err)
			}
			cfg.progress.say("%s: %s", label, found)
			if all[a.name] == nil {
				all[a.name] = make(map[string][]float64)
			}
			for name, x := range found {
				all[a.name][name] = append(all[a.name][name], x)
			}
		}
	}
	return all, nil
}

// String lists the figures in the order of their names, what the arm measures first.
// What the processes took, and of what the transactions were made, is for the row.
func (f figures) String() string {
	var all []string
	if x, ok := f[rate]; ok {
		all = append(all, short(x)+"/s")
	}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if name != rate && !aside(name) {
			all = append(all, name+" "+short(f[name]))
		}
	}
	return strings.Join(all, ", ")
}

// aside tells whether a figure is not worth a place in a line.
func aside(name string) bool {
	return strings.HasSuffix(name, "_mib") || strings.HasSuffix(name, "_cpu_us") || strings.HasPrefix(name, "txn_") ||
		strings.HasPrefix(name, "utilisation_") || name == "node_kinds" || name == "shapes"
}
