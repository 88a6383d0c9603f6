package builtin

import (
	"testing"

	"github.com/escher-sched/escher/e2e/viewtest"
	"github.com/escher-sched/escher/esl"
)

// TestSaysWhyIdle: each policy that changes nothing says why, for the log of decisions, whether its
// tasks wait, some run, or all do.
func TestSaysWhyIdle(t *testing.T) {
	const tasks = 4
	seen := make(map[string]bool)
	for _, kind := range Policies() {
		p, decides := kind.(esl.Controller)
		if !decides {
			continue
		}
		for _, run := range []int{0, 1, tasks} {
			s := viewtest.NewBench(t, 8).Job("j", p, esl.Copies(tasks, oneCore()), run)
			plan := p.Next(s)
			if !plan.Nothing() {
				continue
			}
			seen[kind.Kind()] = true
			if plan.Idle == "" && len(s.Lacking) == 0 {
				t.Errorf("%s, with %d of %d tasks running: changes nothing, and does not say why", kind.Kind(), run, tasks)
			}
		}
	}
	if len(seen) < 15 {
		t.Errorf("only %d kinds were idle: %v", len(seen), seen)
	}
}
