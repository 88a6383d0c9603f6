package share_test

import (
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

// claiming runs a test on eight cores that users share equally, with many small tasks of bob.
func claiming(t *testing.T, nodes int, run string, f func(t *testing.T, s *esltest.Sharing, bob controlplane.Launched)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(nodes, 8/nodes)}, "teams", share.FairShare{Anyone: 1, Over: []string{"cpu"}})
		bob := s.Submit(esl.Copies(900, hollow.Task(1000, "run", run)), esltest.As("bob"))
		time.Sleep(time.Minute)
		f(t, s, bob)
	})
}

// pairOf is a gang of two, with as many cores each.
func pairOf(s *esltest.Sharing, cores int, run string, more types.Requests) controlplane.Launched {
	task := hollow.Task(1000*cores, "run", run)
	task.Task.Requests = task.Task.Requests.Plus(more)
	return s.Submit(esl.Copies(2, task), gang.Gang{}, esltest.As("alice"))
}

// TestFairShareClaimsAgain gives a large task another turn when its attempt has failed.
func TestFairShareClaimsAgain(t *testing.T) {
	claiming(t, 1, "1m", func(t *testing.T, s *esltest.Sharing, _ controlplane.Launched) {
		big := hollow.Task(8000, "run", "20m")
		big.Task.Retries = 5
		id := s.Submit(esl.Copies(1, big), esltest.As("alice")).Tasks[0]
		esltest.Statuses(t, s.Jobs, controlplane.UntilRunning, id)
		time.Sleep(time.Minute)
		if err := s.Finish(t.Context(), "d", id, 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Minute)
		if st := s.Snapshot().Task(esltest.IDOf(id)).Status.V; st.Attempt != 2 || st.Phase != types.Running {
			t.Errorf("attempt %d is %s", st.Attempt, st.Phase)
		}
	})
}

// TestFairShareClaimEnds: others go on when there is never enough, because something runs forever.
func TestFairShareClaimEnds(t *testing.T) {
	claiming(t, 2, "20s", func(t *testing.T, s *esltest.Sharing, bob controlplane.Launched) {
		s.Submit(esl.Copies(3, hollow.Task(1000, "run", "1000h")), esltest.As("dave"))
		time.Sleep(time.Minute)
		pairOf(s, 3, "1m", nil)
		time.Sleep(60 * time.Minute)
		if got := s.Mean(bob, 60*time.Minute); got < 3.5 {
			t.Errorf("bob has %.2f of the 5 cores that are left, in the mean", got)
		}
	})
}

// TestFairShareClaimsInOrder leaves a user's urgent tasks before its older gang.
func TestFairShareClaimsInOrder(t *testing.T) {
	claiming(t, 2, "20s", func(t *testing.T, s *esltest.Sharing, bob controlplane.Launched) {
		low := pairOf(s, 4, "10s", nil)
		time.Sleep(time.Second)
		urgent := hollow.Task(1000, "run", "20s")
		urgent.Task.Priority = 10
		high := s.Submit(esl.Copies(900, urgent), esltest.As("alice"))
		time.Sleep(30 * time.Minute)
		a, b := s.Mean(high, 30*time.Minute), s.Mean(bob, 30*time.Minute)
		if a < 3.3 || a+b < 7.5 || s.Snapshot().Task(esltest.IDOf(low.Tasks[0])).Phase() != types.Pending {
			t.Errorf("of 8 cores, urgent tasks had %.2f in the mean, and others %.2f", a, b)
		}
	})
}

// TestFairShareClaimsPastOthers: what cannot begin does not bar what can, of the same user.
func TestFairShareClaimsPastOthers(t *testing.T) {
	claiming(t, 2, "20s", func(t *testing.T, s *esltest.Sharing, _ controlplane.Launched) {
		pairOf(s, 4, "30s", types.NewRequests(map[string]types.Quantity{"never": 1000}))
		time.Sleep(8 * time.Minute)
		begin := time.Now()
		good := pairOf(s, 3, "20s", nil)
		bound := esltest.Statuses(t, s.Jobs, controlplane.UntilEnded, good.Tasks...)[0].Bound
		if waited := time.Unix(0, bound).Sub(begin); waited > 5*time.Minute {
			t.Errorf("it waited for %s", waited)
		}
	})
}
