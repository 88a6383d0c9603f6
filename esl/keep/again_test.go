package keep_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/esl"
)

// TestAgainAndNothingCame commits a plan that changes nothing once, whatever its RequeueAfter and
// Reason.
func TestAgainAndNothingCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(func(_ string, s *esl.State) esl.Plan {
			return esl.Plan{
				Set:          []controlplane.Resource{{Name: s.Own(""), Where: controlplane.InCluster()}},
				RequeueAfter: s.Now.Add(time.Second),
				Reason:       "it is " + s.Now.String(),
			}
		}))
		store := esltest.NewTrouble(w.Store)
		w.Keep(store)
		w.Submit("a", 1, &esltest.Counter{Name: "a"})
		esltest.Pass(time.Minute)
		if n := store.Done(); n > 3 {
			t.Errorf("it was done %d times", n)
		}
		if n := w.Asked.Count("a"); n < 55 || n > 65 {
			t.Errorf("it was asked %d times in a minute: want once a second", n)
		}
	})
}

// TestAgainAtOnce bounds the calls of a policy whose RequeueAfter is now or in the past.
func TestAgainAtOnce(t *testing.T) {
	for name, before := range map[string]time.Duration{"now": 0, "before": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				w := esltest.NewWorld(t, esltest.NewRecord(func(_ string, s *esl.State) esl.Plan {
					if asked++; asked > 1000 {
						return esl.Plan{} // so that the test ends
					}
					return esl.Plan{RequeueAfter: s.Now.Add(-before)}
				}))
				w.Keep(w.Store)
				w.Submit("a", 1, &esltest.Counter{Name: "a"})
				esltest.Pass(time.Second)
				if n := w.Asked.Count("a"); n < 40 || n > 55 {
					t.Errorf("it was asked %d times in a second", n)
				}
			})
		})
	}
}
