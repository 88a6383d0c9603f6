package esl_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
)

// TestFairShareEvens divides what is no whole number of tasks for everybody: all have what
// they are entitled to in the mean, whoever keeps the policy, and whatever they are called.
func TestFairShareEvens(t *testing.T) {
	equal := esl.FairShare{Anyone: 1, Over: []string{"cpu"}}
	weighted := esl.FairShare{Of: map[string]esl.Team{"u": {Weight: 2}, "v": {}}, Over: []string{"cpu"}}
	nested := esl.FairShare{Over: []string{"cpu"}, Of: map[string]esl.Team{
		"a": {Of: map[string]esl.Team{"x": {Of: map[string]esl.Team{"u": {}, "v": {}}}, "w": {}}}, "b": {Of: map[string]esl.Team{"u": {}}},
	}}
	for name, test := range map[string]struct {
		share esl.FairShare
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
				s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(test.nodes, 4)}, "teams", test.share)
				jobs := make(map[string]controlplane.Launched)
				for user := range test.want {
					jobs[user] = s.submit(esl.Copies(150, hollow.Task(1000*test.task, "run", "5s")), as(user))
				}
				for range 8 {
					time.Sleep(30 * time.Second)
					s.StopKeeping()
					s.Keep()
				}
				for user, want := range test.want {
					one := float64(test.task) * 5 / 240 // a task more or less
					if got := s.mean(jobs[user], 4*time.Minute) * float64(test.task); math.Abs(got-want) > 0.03*want+one {
						t.Errorf("%s has %.2f cores in the mean, want %.2f", user, got, want)
					}
				}
			})
		})
	}
}

// mean returns how many tasks of a job ran in the mean until now.
func (s *sharing) mean(job controlplane.Launched, during time.Duration) float64 {
	s.t.Helper()
	var sum time.Duration
	v := s.view()
	for _, id := range job.Tasks {
		task := v.Task(cluster.ID{Namespace: "d", ID: id})
		switch {
		case task.Phase().Ended():
			sum += time.Duration(task.Status.V.Ended - task.Status.V.Bound)
		case task.Phase().Held():
			sum += time.Since(time.Unix(0, task.Status.V.Bound))
		}
	}
	return float64(sum) / float64(during)
}
