package share_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/types"
)

// TestFairShareOfAGang gives a gang that is larger than the share of its user its turn while others want
// everything: soon if nothing else of the user waits, and after a while if smaller tasks do.
func TestFairShareOfAGang(t *testing.T) {
	for name, c := range map[string]struct {
		cores, own int // of each of its two tasks, and the number of other tasks of its user
		within     time.Duration
	}{
		"alone":                {4, 0, 3 * time.Minute},
		"larger than half":     {3, 0, 3 * time.Minute},
		"before smaller tasks": {4, 400, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 4)}, "teams", share.FairShare{Anyone: 1, Over: []string{"cpu"}})
				s.Submit(esl.Copies(600, hollow.Task(1000, "run", "20s")), esltest.As("bob"))
				time.Sleep(2 * time.Minute)
				job := s.Submit(esl.Copies(2, hollow.Task(1000*c.cores, "run", "20s")), gang.Gang{}, esltest.As("alice"))
				time.Sleep(time.Second)
				if c.own > 0 {
					s.Submit(esl.Copies(c.own, hollow.Task(1000, "run", "20s")), esltest.As("alice"))
				}
				begin := time.Now()
				for _, st := range esltest.Statuses(t, s.Jobs, controlplane.UntilEnded, job.Tasks...) {
					if waited := time.Unix(0, st.Bound).Sub(begin); waited > c.within {
						t.Errorf("it waited for %s", waited)
					}
				}
			})
		})
	}
}

// TestFairShareOfGangsOverTime gives a user with gangs of everything, and one with small tasks, half of
// the cluster each over time, less what is idle before a gang begins.
func TestFairShareOfGangsOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 4)}, "teams", share.FairShare{Anyone: 1, Over: []string{"cpu"}})
		small := s.Submit(esl.Copies(1500, hollow.Task(1000, "run", "5s")), esltest.As("bob"))
		var gangs []controlplane.Launched
		for range 40 {
			gangs = append(gangs, s.Submit(esl.Copies(2, hollow.Task(4000, "run", "30s")), gang.Gang{}, esltest.As("alice")))
		}
		time.Sleep(10 * time.Minute)
		had := 0.0
		for _, g := range gangs {
			had += 4 * s.Mean(g, 10*time.Minute)
		}
		if bob := s.Mean(small, 10*time.Minute); bob < 3 || had < 3 || bob+had < 7 {
			t.Errorf("of 8 cores, the gangs had %.2f in the mean, and the small tasks %.2f", had, bob)
		} else {
			t.Logf("of 8 cores, the gangs had %.2f in the mean, and the small tasks %.2f", had, bob)
		}
	})
}

// TestFairShareSaysWhoseTurnItIs tells the tasks that begin nothing for a gang of another user.
func TestFairShareSaysWhoseTurnItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 4)}, "teams", share.FairShare{Anyone: 1, Over: []string{"cpu"}})
		small := s.Submit(esl.Copies(60, hollow.Task(1000, "run", "1m")), esltest.As("bob"))
		time.Sleep(30 * time.Second)
		s.Submit(esl.Copies(2, hollow.Task(4000, "run", "30s")), gang.Gang{}, esltest.As("alice"))
		for begin, told := time.Now(), ""; !strings.Contains(told, "bob begins nothing for now: it is the turn of a gang or task that is larger than the share of its user"); {
			time.Sleep(5 * time.Second)
			if told = esltest.TaskWhy(t, s.Cluster, small.Tasks[59]); time.Since(begin) > 5*time.Minute {
				t.Fatalf("why: %q", told)
			}
		}
	})
}

// TestFairShareLendsMeanwhile: what a gang cannot use before its turn, others do.
func TestFairShareLendsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 4)}, "teams", share.FairShare{Anyone: 1, Over: []string{"cpu"}})
		small := s.Submit(esl.Copies(60, hollow.Task(1000, "run", "5m")), esltest.As("bob"))
		time.Sleep(4*time.Minute + 30*time.Second)
		job := s.Submit(esl.Copies(2, hollow.Task(4000, "run", "30s")), gang.Gang{}, esltest.As("alice"))
		begin := time.Now()
		time.Sleep(35 * time.Second)
		running := 0
		for _, id := range small.Tasks {
			if s.Snapshot().Task(esltest.IDOf(id)).Phase() == types.Running {
				running++
			}
		}
		if running != 8 {
			t.Errorf("%d of 8 cores are in use before it is the turn of the gang", running)
		}
		bound := esltest.Statuses(t, s.Jobs, controlplane.UntilEnded, job.Tasks...)[0].Bound
		if waited := time.Unix(0, bound).Sub(begin); waited > 6*time.Minute {
			t.Errorf("the gang waited for %s", waited)
		}
	})
}

// TestFairShareClaimsInVain: a gang that cannot begin, or is larger than the cluster, stops others at most
// once.
func TestFairShareClaimsInVain(t *testing.T) {
	for name, c := range map[string]struct {
		nodes int
		never types.Quantity
	}{"waits for something else": {2, 1000}, "larger than what is left": {3, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(c.nodes, 4)}, "teams", share.FairShare{Anyone: 1, Over: []string{"cpu"}})
				small := s.Submit(esl.Copies(1000, hollow.Task(1000, "run", "20s")), esltest.As("bob"))
				whole := hollow.Task(4000, "run", "30s")
				if c.never > 0 {
					whole.Task.Requests = whole.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"never": c.never}))
				}
				s.Submit(esl.Copies(c.nodes, whole), gang.Gang{}, esltest.As("alice"))
				if c.nodes == 3 {
					if err := s.Kill(t.Context(), hollow.Nodes(3, 4)[2].Name); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Second)
				own := s.Submit(esl.Copies(1000, hollow.Task(1000, "run", "20s")), esltest.As("alice"))
				time.Sleep(30 * time.Minute)
				if bob, alice := s.Mean(small, 30*time.Minute), s.Mean(own, 30*time.Minute); bob+alice < 7 || alice < 3 {
					t.Errorf("of 8 cores, the others had %.2f in the mean, and other tasks of its user %.2f", bob, alice)
				}
			})
		})
	}
}
