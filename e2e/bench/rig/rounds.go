package rig

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/escher-sched/escher/types"
)

// Figures are the results of one measurement, by name, with the unit in the name.
type Figures map[string]float64

// Names of figures that several measurements have.
const (
	Rate       = "rate"       // what the arm measures, per second
	Violations = "violations" // findings of the audit
)

// Arm is one of the compared measurements: it runs once a round, on its own cluster.
type Arm struct {
	Name string
	// Measure measures once.
	Measure func(context.Context, Config) (Figures, error)
}

// Samples are the figures of all rounds, by the names of arm and figure.
type Samples map[string]map[string][]float64

// Of returns a figure of an arm, round by round.
func (s Samples) Of(arm, figure string) []float64 { return s[arm][figure] }

// figures returns the names of the figures of an arm.
func (s Samples) figures(arm string) []string { return slices.Sorted(maps.Keys(s[arm])) }

// Violations returns the violations of some arms.
func (s Samples) Violations(arms ...string) []float64 {
	var all []float64
	for _, a := range arms {
		all = append(all, s[a][Violations]...)
	}
	return all
}

// Interleave measures the arms round by round, every other round in reverse order, so that drift
// affects all of them.
func Interleave(ctx context.Context, cfg Config, arms ...Arm) (Samples, error) {
	all := make(Samples)
	cfg.progress.total(cfg.Rounds * len(arms))
	for n := range cfg.Rounds {
		turn := slices.Clone(arms)
		if n%2 == 1 {
			slices.Reverse(turn)
		}
		for _, a := range turn {
			label := fmt.Sprintf("%s: round %d of %d: %s", cfg.Scenario, n+1, cfg.Rounds, a.Name)
			cfg.progress.step(label)
			one := cfg
			one.Label = strings.NewReplacer(" ", "-", "/", "-").Replace(a.Name) // a part of the names of files
			found, err := a.Measure(ctx, one)
			if err != nil {
				return nil, types.Errorf(types.ClassOf(err), "%s: %w", label, err)
			}
			cfg.Say("%s: %s", label, found)
			if all[a.Name] == nil {
				all[a.Name] = make(map[string][]float64)
			}
			for name, x := range found {
				all[a.Name][name] = append(all[a.Name][name], x)
			}
		}
	}
	return all, nil
}

// String lists the figures by name, the measured rate first. It omits process usage and transaction
// shapes, which belong into the row.
func (f Figures) String() string {
	var all []string
	if x, ok := f[Rate]; ok {
		all = append(all, short(x)+"/s")
	}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if name != Rate && !aside(name) {
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
