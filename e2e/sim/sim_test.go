package sim

import (
	"flag"
	"maps"
	"slices"
	"testing"
)

func TestOne(t *testing.T) {
	all := make(map[string]int)
	defer func() {
		for _, k := range slices.Sorted(maps.Keys(all)) {
			t.Log(k, all[k])
		}
	}()
	for seed := range uint64(*count) {
		seed += *first
		cfg := configOf(seed)
		steps := Steps(cfg.Seed, *nsteps)
		f, seen := Run(cfg, steps, nil)
		for k, n := range seen {
			all[k] += n
		}
		if f != nil {
			t.Error(cfg.Seed, f)
			if *shr > 0 {
				steps, _ = Shrink(cfg, steps, f, *shr)
				t.Log(Script(cfg, steps))
			}
			return
		}
	}
}

var (
	first  = flag.Uint64("seed", 1, "")
	count  = flag.Int("seeds", 10, "")
	nsteps = flag.Int("steps", 4000, "")
	shr    = flag.Int("shrink", 3000, "")
)

func configOf(seed uint64) Config {
	return Config{Seed: seed, Schedulers: []int{2, 4, 2, 4, 1}[seed%5], Shared: seed%7 == 6, Nodes: 6, Tasks: 1000}
}
