package sim

import (
	"fmt"
	"strings"
)

// Shrink leaves out steps while the run fails and more returns true, and returns the remaining
// steps with their failure.
func Shrink(cfg Config, steps []Step, failure *Failure, more func() bool) ([]Step, *Failure) {
	steps = steps[:min(len(steps), failure.Step+1)]
	for size := len(steps) / 2; size > 0; size /= 2 {
		for at := 0; at < len(steps) && more(); {
			end := min(at+size, len(steps))
			shorter := append(append([]Step(nil), steps[:at]...), steps[end:]...)
			if f, _ := Run(cfg, shorter, nil); f != nil {
				steps, failure = shorter[:min(len(shorter), f.Step+1)], f
				continue
			}
			at = end
		}
	}
	return steps, failure
}

// Script prints a run: the input of ParseScript, and what happened.
func Script(cfg Config, steps []Step) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# seed %d, %d schedulers, shared %t, %d nodes, %d tasks\n", cfg.Seed, cfg.Schedulers, cfg.Shared, cfg.Nodes, cfg.Tasks)
	f, _ := Run(cfg, steps, func(format string, args ...any) { fmt.Fprintf(&b, format, args...) })
	fmt.Fprintf(&b, "\n# %v\n", f)
	return b.String()
}
