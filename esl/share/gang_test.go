package share_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
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

// TestFairShareReclaimsGangsWhole takes a share back from gangs: as many as it takes, each as a whole, and
// the youngest of these. A gang larger than the share of its user goes when it has run for ten times as long as others wait.
func TestFairShareReclaimsGangsWhole(t *testing.T) {
	for name, c := range map[string]struct {
		gangs, members, cores int // how many gangs, of how many members with how many cores
		small                 int // tasks of a core of their user, older than they are
		wants                 int // cores that another user wants
		within                time.Duration
		evicted               string // which gangs, and how many of the small
		keeps, has            float64
	}{
		"one of two":             {2, 2, 2, 0, 20, 20 * time.Second, "2", 4, 4},
		"younger than the small": {1, 2, 2, 4, 20, 20 * time.Second, "1", 4, 4},
		"no more than it takes":  {4, 2, 1, 0, 2, 20 * time.Second, "4", 6, 2},
		"more than it takes":     {2, 2, 2, 0, 1, 20 * time.Second, "2", 4, 1},
		"larger than its share":  {1, 2, 4, 0, 20, 100 * time.Second, "1", 0, 8},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := share.FairShare{Anyone: 1, Over: []string{"cpu"}, Reclaim: manifest.Duration(10 * time.Second)}
				s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 4)}, "teams", p)
				if c.small > 0 {
					s.Submit(esl.Copies(c.small, hollow.Task(1000)), esltest.As("alice"))
					time.Sleep(5 * time.Second)
				}
				var gangs []controlplane.Launched
				for range c.gangs {
					gangs = append(gangs, s.Submit(esl.Copies(c.members, hollow.Task(1000*c.cores, "stop", "3s")), gang.Gang{}, esltest.As("alice")))
					time.Sleep(time.Second)
				}
				time.Sleep(15 * time.Second)
				s.Shares("cpu", 0, map[string]float64{"alice": 8})
				s.Submit(esl.Copies(c.wants, hollow.Task(1000)), esltest.As("bob"))
				time.Sleep(9 * time.Second)
				if n := s.Evicted(); n != 0 {
					t.Errorf("%d were evicted before the time", n)
				}
				time.Sleep(c.within)
				s.Shares("cpu", 0, map[string]float64{"alice": c.keeps, "bob": c.has})
				time.Sleep(2 * time.Minute) // and so it stays, but for what an evicted gang collects
				s.Shares("cpu", 0, map[string]float64{"bob": c.has})
				evicted, all := "", 0
				for i, g := range gangs {
					gone := 0
					for _, id := range g.Tasks {
						if s.Snapshot().Task(esltest.IDOf(id)).Info.V.Evict > 0 {
							gone++
						}
					}
					if all += gone; gone > 0 {
						evicted += fmt.Sprint(i + 1)
					}
					if gone > 0 && gone < c.members {
						t.Errorf("%d of the %d members of gang %d were evicted", gone, c.members, i+1)
					}
				}
				if evicted != c.evicted || s.Evicted() != all {
					t.Errorf("the evicted gangs are %q, want %q; %d others were evicted", evicted, c.evicted, s.Evicted()-all)
				}
			})
		})
	}
}

// TestFairShareOfWhatIsCollected: what a gang has collected, and lies idle, is not kept from another user's
// share.
func TestFairShareOfWhatIsCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 4)}, "teams", share.FairShare{Anyone: 1, Over: []string{"cpu"}})
		s.Submit(esl.Copies(1, hollow.Task(1000)), esltest.As("bob"))
		for range 2 {
			s.Submit(esl.Copies(2, hollow.Task(2000)), gang.Gang{}, esltest.As("alice"))
			time.Sleep(time.Minute)
		}
		s.Shares("cpu", 0, map[string]float64{"alice": 7, "bob": 1}) // the second gang has collected three cores
		for n := range 3 {
			s.BeginsWithin(s.Submit(esl.Copies(1, hollow.Task(1000)), esltest.As("bob")), 3*time.Second)
			time.Sleep(time.Minute)
			s.Shares("cpu", 0, map[string]float64{"alice": float64(6 - n), "bob": float64(2 + n)})
		}
	})
}
