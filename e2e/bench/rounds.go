package bench

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/escher-sched/escher/types"
)

// figures are the results of one measurement, by name, with the unit in the name.
type figures map[string]float64

// Names of figures that several measurements have.
const (
	rate       = "rate"       // what the arm measures, per second
	violations = "violations" // findings of the audit
)

// arm is one of the compared measurements: it runs once a round, on its own cluster.
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

// violations returns the violations of some arms.
func (s samples) violations(arms ...string) []float64 {
	var all []float64
	for _, a := range arms {
		all = append(all, s[a][violations]...)
	}
	return all
}

// interleave measures the arms round by round, every other round in reverse order, so that drift
// affects all of them.
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

// String lists the figures by name, the measured rate first. It omits process usage and transaction
// shapes, which belong into the row.
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

// aside reports whether a figure is omitted from a line.
func aside(name string) bool {
	return strings.HasSuffix(name, "_mib") || strings.HasSuffix(name, "_cpu_us") || strings.HasPrefix(name, "txn_") ||
		strings.HasPrefix(name, "utilisation_") || name == "node_kinds" || name == "shapes"
}
