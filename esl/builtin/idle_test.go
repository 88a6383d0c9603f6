package builtin

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/e2e/viewtest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/place"
)

// TestSaysWhyIdle: each policy of a job that changes nothing says why, for the log of decisions, whether
// its tasks wait, some run, or all do.
func TestSaysWhyIdle(t *testing.T) {
	const tasks = 4
	one := oneCore()
	one.Task.MaxRun, one.Task.Deadline = time.Minute, time.Now().Add(time.Hour).UnixNano()
	seen := make(map[string]bool)
	for _, kind := range Policies() {
		p, decides := kind.(esl.Controller)
		switch kind.(type) { // these have no defaults
		case place.Near:
			p = place.Near{To: "data"}
		case admission.After:
			p = admission.After{Jobs: []string{"other"}}
		case admission.Barrier:
			p = admission.Barrier{Tasks: []string{"first"}}
		case place.Objective:
			p = place.Objective{By: place.Leftover}
		}
		if !decides || esl.Describe(kind).OnlyDeclared {
			continue // jobs have these by Use
		}
		for _, run := range []int{0, 1, tasks} {
			all := esl.Copies(tasks, one)
			all[0].Task.Name = "first"
			s := viewtest.NewBench(t, 8).Job("j", p, all, run)
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
