package faults

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/escher-sched/escher/controlplane"
)

// TestUnguarded: without the compares of a kind of keys, in the transactions of a kind of
// component, a guarantee breaks in one of a few seeds.
func TestUnguarded(t *testing.T) {
	for _, g := range []struct {
		component string
		kind      controlplane.Kind
	}{
		{"agent", controlplane.Bindings},
		{"agent", controlplane.Reports},
		{"application", controlplane.Tasks},
		{"application", controlplane.Admissions},
	} {
		t.Run(g.component+"/"+string(g.kind), func(t *testing.T) {
			unguarded := func(component string, c controlplane.Compare) bool {
				k, ok := controlplane.Parse(c.Key)
				return ok && k.Kind == g.kind && strings.HasPrefix(component, g.component)
			}
			for seed := range uint64(30) {
				dir, broke := t.TempDir(), false
				synctest.Test(t, func(t *testing.T) {
					r := Run(Config{Seed: seed + 1, Dir: dir, Unguarded: unguarded, Changes: g.kind == controlplane.Tasks})
					broke = len(r.Findings) > 0
				})
				if broke {
					t.Logf("seed %d", seed+1)
					return
				}
			}
			t.Error("nothing breaks without it")
		})
	}
}
