package sim

import (
	"flag"
	"testing"
)

func TestOne(t *testing.T) {
	for seed := range uint64(*count) {
		cfg := Config{Seed: *first + seed, Schedulers: 2 + 2*int(seed%2), Shared: seed%5 == 4, Nodes: 6, Tasks: 1000}
		steps := Steps(cfg.Seed, *nsteps)
		if f := Run(cfg, steps, nil); f != nil {
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
	nsteps = flag.Int("steps", 2500, "")
	shr    = flag.Int("shrink", 300, "")
)
