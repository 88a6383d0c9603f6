package share_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/share"
)

// TestFairShareReclaimsFromTwo takes from each of two users one of its two gangs, the younger one, for a
// third user; each evicted member is told that it was for another user's share.
func TestFairShareReclaimsFromTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := share.FairShare{Anyone: 1, Over: []string{"cpu"}, Reclaim: manifest.Duration(10 * time.Second)}
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(3, 4)}, "teams", p)
		var younger []string
		for i := range 3 {
			for _, user := range []string{"alice", "bob"} {
				job := s.Submit(esl.Copies(2, hollow.Task(1000)), gang.Gang{}, esltest.As(user))
				if i == 2 {
					younger = append(younger, job.Tasks...)
				}
				time.Sleep(time.Second)
			}
		}
		time.Sleep(15 * time.Second)
		s.Shares("cpu", 0, map[string]float64{"alice": 6, "bob": 6})
		s.Submit(esl.Copies(4, hollow.Task(1000)), esltest.As("carol"))
		time.Sleep(30 * time.Second)
		s.Shares("cpu", 0, map[string]float64{"alice": 4, "bob": 4, "carol": 4})
		for _, id := range younger {
			task := s.Snapshot().Task(esltest.IDOf(id))
			if why := task.Info.V.EvictReason(); task.Info.V.Evict != 1 || !strings.Contains(why, "share") {
				t.Errorf("%s was evicted %d times: %q", id, task.Info.V.Evict, why)
			}
		}
		if n := s.Evicted(); n != 4 {
			t.Errorf("%d tasks were evicted", n)
		}
	})
}
