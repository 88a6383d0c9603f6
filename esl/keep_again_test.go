package esl_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
)

// TestAgainAndNothingCame: a plan that changes nothing is done once, however often it is
// to be looked again, and whatever it says of that.
func TestAgainAndNothingCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newRecord(func(_ string, s *esl.State) esl.Plan {
			return esl.Plan{
				Set:    []esl.Set{{Name: s.Own(""), Where: controlplane.InCluster()}},
				Again:  s.Now.Add(time.Second),
				Reason: "it is " + s.Now.String(),
			}
		}))
		store := newTrouble(w.store)
		w.keep(store)
		w.submit("a", 1, &counter{Name: "a"})
		pass(time.Minute)
		if n := store.done(); n > 3 {
			t.Errorf("it was done %d times", n)
		}
		if n := w.asked.count("a"); n < 55 || n > 65 {
			t.Errorf("it was asked %d times in a minute: want once a second", n)
		}
	})
}

// TestAgainAtOnce: who wants to be asked again at once, or before, is not asked all the
// time.
func TestAgainAtOnce(t *testing.T) {
	for name, before := range map[string]time.Duration{"now": 0, "before": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				w := newWorld(t, newRecord(func(_ string, s *esl.State) esl.Plan {
					if asked++; asked > 1000 {
						return esl.Plan{} // so that the test ends
					}
					return esl.Plan{Again: s.Now.Add(-before)}
				}))
				w.keep(w.store)
				w.submit("a", 1, &counter{Name: "a"})
				pass(time.Second)
				if n := w.asked.count("a"); n < 40 || n > 55 {
					t.Errorf("it was asked %d times in a second", n)
				}
			})
		})
	}
}
