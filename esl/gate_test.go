package esl_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// declare declares further shared policies.
func (s *sharing) declare(more map[string]esl.Shared) {
	s.t.Helper()
	for id, p := range more {
		if err := s.jobs.Declare(s.t.Context(), id, p, ""); err != nil {
			s.t.Fatal(err)
		}
	}
}

// why returns what is said of a task.
func (s *sharing) why(task string) string {
	s.t.Helper()
	return strings.Join(esl.Why(s.view(), esl.Builtin(), cluster.ID{Namespace: "d", ID: task}, time.Now()), "; ")
}

// TestGatesTogether has jobs in several queues and shares at once: none of them waits
// until another one lets the tasks in.
func TestGatesTogether(t *testing.T) {
	queued, flow, share := esl.Queued{In: "q"}, esl.Flow{In: "f", As: "a"}, esl.Share{In: "teams", As: "a"}
	for name, policies := range map[string][]esl.Policy{
		"queue and flow":  {queued, flow},
		"flow and queue":  {flow, queued},
		"queue and share": {queued, share},
		"flow and share":  {flow, share},
		"two shares":      {share, esl.Share{In: "others", As: "b"}},
		"all of them":     {share, flow, esl.Share{In: "others", As: "b"}, queued},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 4)}, "q", esl.Queue{Rate: 4})
				s.declare(map[string]esl.Shared{
					"f": esl.FairQueue{Limit: 4, Anyone: 1}, "teams": esl.FairShare{Anyone: 1, Over: []string{"cpu"}},
					"others": esl.FairShare{Anyone: 1, Over: []string{"cpu"}},
				})
				job := s.submit(esl.Copies(8, hollow.Task(1000, "run", "2s")), policies...)
				time.Sleep(30 * time.Second)
				if n := len(s.begun(job)); n != 8 {
					t.Errorf("%d have begun, want 8", n)
				}
				s.nothingLeft("d/q.queue")
			})
		})
	}
}

// TestGatesOfGangs opens the gates of a gang all or none: who is let in does not wait for
// who is not.
func TestGatesOfGangs(t *testing.T) {
	for name, p := range map[string]esl.Policy{"queue": esl.Queued{In: "q"}, "fair-queue": esl.Flow{In: "f", As: "a"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 8)}, "q", esl.Queue{Rate: 4, Per: manifest.Duration(10 * time.Second)})
				s.declare(map[string]esl.Shared{"f": esl.FairQueue{Limit: 4, Anyone: 1}})
				first := s.submit(esl.Copies(2, hollow.Task(100, "run", "5s")), p)
				time.Sleep(100 * time.Millisecond)
				gang := s.submit(esl.Copies(3, hollow.Task(100, "run", "5s")), esl.Gang{}, p)
				time.Sleep(100 * time.Millisecond)
				last := s.submit(esl.Copies(4, hollow.Task(100, "run", "5s")), p)
				time.Sleep(2 * time.Second)
				if a, b, c := len(s.begun(first)), len(s.begun(gang)), len(s.begun(last)); a != 2 || b != 0 || c != 0 {
					t.Errorf("%d, %d of the gang and %d have begun, want 2, 0 and 0", a, b, c)
				}
				for rid := range s.view().Pools {
					if strings.HasPrefix(string(rid), "d:"+gang.Job+".") {
						t.Errorf("of the gang %s is open, and not all can be", rid)
					}
				}
				time.Sleep(40 * time.Second)
				if a, b, c := len(s.begun(first)), len(s.begun(gang)), len(s.begun(last)); a != 2 || b != 3 || c != 4 {
					t.Errorf("%d, %d of the gang and %d have begun, want 2, 3 and 4", a, b, c)
				}
			})
		})
	}
}

// TestGangTooLargeForGates keeps nobody out: one that was let in by a larger number
// before, as it was submitted.
func TestGangTooLargeForGates(t *testing.T) {
	for name, p := range map[string]esl.Policy{"queue": esl.Queued{In: "q"}, "fair-queue": esl.Flow{In: "f", As: "a"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 8), NoKeep: true}, "q", esl.Queue{Rate: 8})
				s.declare(map[string]esl.Shared{"f": esl.FairQueue{Limit: 8, Anyone: 1}})
				gang := s.submit(esl.Copies(4, hollow.Task(100, "run", "5s")), esl.Gang{}, p)
				s.declare(map[string]esl.Shared{"q": esl.Queue{Rate: 2}, "f": esl.FairQueue{Limit: 2, Anyone: 1}})
				others := s.submit(esl.Copies(4, hollow.Task(100, "run", "1s")), p)
				s.Keep()
				time.Sleep(10 * time.Second)
				if a, b := len(s.begun(gang)), len(s.begun(others)); a != 0 || b != 4 {
					t.Errorf("%d of the gang and %d others have begun, want 0 and 4", a, b)
				}
				if why := s.why(gang.Tasks[0]); !strings.Contains(why, "lets in 2 at once, and its gang has 4 members") {
					t.Errorf("why: %s", why)
				}
			})
		})
	}
}

// TestGatesOfWhatNeverRuns keeps nobody out for what no node is large enough for.
func TestGatesOfWhatNeverRuns(t *testing.T) {
	for name, p := range map[string]esl.Policy{"queue": esl.Queued{In: "q"}, "fair-queue": esl.Flow{In: "f", As: "a"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 4)}, "q", esl.Queue{Rate: 2})
				s.declare(map[string]esl.Shared{"f": esl.FairQueue{Limit: 2, Anyone: 1}})
				large := s.submit(esl.Copies(2, hollow.Task(50_000)), p)
				small := s.submit(esl.Copies(4, hollow.Task(100, "run", "1s")), p)
				time.Sleep(20 * time.Second)
				if n := len(s.begun(small)); n != 4 {
					t.Errorf("%d have begun, want 4", n)
				}
				if why := s.why(large.Tasks[0]); why != name+" "+strings.Fields(why)[1]+" does not let it in: no node that takes tasks is large enough for it" {
					t.Errorf("why: %s", why)
				}
			})
		})
	}
}

// TestGatesOfWhatDoesNotBegin closes the gates of those who find no room, so that others
// have their turn, and opens them again in turn.
func TestGatesOfWhatDoesNotBegin(t *testing.T) {
	for name, p := range map[string]esl.Policy{"queue": esl.Queued{In: "q"}, "fair-queue": esl.Flow{In: "f", As: "a"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 4)}, "q", esl.Queue{Rate: 2})
				s.declare(map[string]esl.Shared{"f": esl.FairQueue{Limit: 2, Anyone: 1}})
				s.submit(esl.Copies(1, hollow.Task(2000, "run", "10m")))
				time.Sleep(time.Second)
				large := s.submit(esl.Copies(2, hollow.Task(3000, "run", "10s")), p)
				time.Sleep(time.Second)
				small := s.submit(esl.Copies(4, hollow.Task(1000, "run", "10s")), p)
				time.Sleep(50 * time.Second)
				if n := len(s.begun(small)); n != 0 {
					t.Errorf("%d have begun before their turn", n)
				}
				time.Sleep(time.Minute)
				if n := len(s.begun(small)); n != 4 {
					t.Errorf("%d have begun, want 4", n)
				}
				time.Sleep(10 * time.Minute)
				if n := len(s.begun(large)); n != 2 {
					t.Errorf("%d large ones have begun, want 2", n)
				}
				s.nothingLeft("d/q.queue")
			})
		})
	}
}

// TestFairShareOfAlternatives counts as wanted the first alternative that can be had.
func TestFairShareOfAlternatives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 4)}, "teams", esl.FairShare{Anyone: 1, Over: []string{"cpu"}})
		job := s.submit(esl.Copies(2, hollow.Task(1000, "run", "1s")), esl.Near{To: "nodata", Wait: manifest.Wait(time.Second)}, as("a"))
		time.Sleep(20 * time.Second)
		if n := len(s.begun(job)); n != 2 {
			t.Errorf("%d have begun, want 2", n)
		}
	})
}

// TestGatesOfAGangTooLarge lets none of a gang in of which one is too large for the nodes that
// take tasks, until one takes tasks that is large enough.
func TestGatesOfAGangTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := append(hollow.Nodes(1, 4), hollow.Node{Name: "large", Capacity: map[string]types.Quantity{"cpu": 8000}})
		s := newSharing(t, hollow.Config{Nodes: nodes}, "q", esl.Queue{Rate: 4, Per: manifest.Duration(10 * time.Second)})
		if _, err := s.jobs.Cordon(t.Context(), "large", types.Cordon{Reason: "later"}); err != nil {
			t.Fatal(err)
		}
		gang := s.submit([]controlplane.Submission{hollow.Task(1000, "run", "5s"), hollow.Task(1000, "run", "5s"), hollow.Task(6000, "run", "5s")}, esl.Gang{}, esl.Queued{In: "q"})
		time.Sleep(10 * time.Second)
		for rid := range s.view().Pools {
			if strings.HasPrefix(string(rid), "d:"+gang.Job+".queued") {
				t.Errorf("%s is open", rid)
			}
		}
		if _, err := s.jobs.Uncordon(t.Context(), "large"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if n := len(s.begun(gang)); n != 3 {
			t.Errorf("%d of the gang have begun, want 3", n)
		}
		s.nothingLeft("d/q.queue")
	})
}
