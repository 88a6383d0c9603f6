package share_test

import (
	"maps"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/share"
)

// TestFairShareEvens divides shares that are not whole numbers of tasks: all users get their share
// on average, whichever process runs the policy, and whatever their names.
func TestFairShareEvens(t *testing.T) {
	equal := share.FairShare{Anyone: 1, Over: []string{"cpu"}}
	weighted := share.FairShare{Of: map[string]share.Team{"u": {Weight: 2}, "v": {}}, Over: []string{"cpu"}}
	nested := share.FairShare{Over: []string{"cpu"}, Of: map[string]share.Team{
		"a": {Of: map[string]share.Team{"x": {Of: map[string]share.Team{"u": {}, "v": {}}}, "w": {}}}, "b": {Of: map[string]share.Team{"u": {}}},
	}}
	for name, test := range map[string]struct {
		share share.FairShare
		nodes int
		task  int // its cores
		want  map[string]float64
	}{
		"less than a task each":     {equal, 2, 4, map[string]float64{"u": 8. / 3, "v": 8. / 3, "w": 8. / 3}},
		"two and a half tasks each": {equal, 5, 2, map[string]float64{"u": 5, "v": 5, "w": 5, "x": 5}},
		"by weight":                 {weighted, 1, 4, map[string]float64{"u": 8. / 3, "v": 4. / 3}},
		"in teams of teams":         {nested, 2, 4, map[string]float64{"b/u": 4, "a/w": 2, "a/x/u": 1, "a/x/v": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(test.nodes, 4)}, "teams", test.share)
				jobs := make(map[string]controlplane.Launched)
				for _, user := range slices.Sorted(maps.Keys(test.want)) { // the same order in each run
					jobs[user] = s.Submit(esl.Copies(150, hollow.Task(1000*test.task, "run", "5s")), esltest.As(user))
				}
				for range 8 {
					time.Sleep(30 * time.Second)
					s.StopKeeping()
					s.Keep()
				}
				for user, want := range test.want {
					one := float64(test.task) * 5 / 240 // a task more or less
					if got := s.Mean(jobs[user], 4*time.Minute) * float64(test.task); math.Abs(got-want) > 0.03*want+one {
						t.Errorf("%s has %.2f cores in the mean, want %.2f", user, got, want)
					}
				}
			})
		})
	}
}
