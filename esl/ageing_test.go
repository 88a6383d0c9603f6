package esl_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// TestAgeing has one that waits long, and a gang that does, come before others of a higher
// priority that came later, by so much and no more; nobody is evicted for it.
func TestAgeing(t *testing.T) {
	for name, gang := range map[string][]esl.Policy{"task": nil, "gang": {esl.Gang{}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, jobs := ordered(t, 1) // of four cores
				first := submitted(t, jobs, ofPriority(1, 1, hollow.Task(4000, "run", "20s")))
				pass(time.Second)
				aged := append(gang, esl.Ageing{Every: manifest.Duration(4 * time.Second), Limit: 3}, esl.Preempt{})
				low := submitted(t, jobs, ofPriority(0, 1, hollow.Task(4000, "run", "10s")), aged...)
				pass(16 * time.Second) // less than after which a gang collects
				if text := why(t, c, low.Tasks[0]); gang == nil && !strings.Contains(text, "as if its priority were 3 instead of 0") {
					t.Errorf("why: %q", text)
				}
				second := submitted(t, jobs, ofPriority(2, 1, hollow.Task(4000, "run", "10s")))
				third := submitted(t, jobs, ofPriority(4, 1, hollow.Task(4000, "run", "2s")))
				var bound []int64
				for _, ids := range [][]string{first.Tasks, third.Tasks, low.Tasks, second.Tasks} {
					s := statuses(t, jobs, controlplane.UntilEnded, ids...)[0]
					if s.Attempt != 1 || s.Phase != types.Succeeded || len(bound) > 0 && s.Bound <= bound[len(bound)-1] {
						t.Errorf("%+v, after those that were bound at %v", s, bound)
					}
					bound = append(bound, s.Bound)
				}
				nothingLeft(t, c)
			})
		})
	}
}

// TestAgeingIsValid names what is wrong.
func TestAgeingIsValid(t *testing.T) {
	for want, p := range map[string]esl.Ageing{"every: 1ms": {Every: manifest.Duration(time.Millisecond)}, "limit: -1": {Limit: -1}, "limit: 2000": {Limit: 2000}} {
		if err := p.Validate(); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
