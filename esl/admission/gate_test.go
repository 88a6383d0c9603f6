package admission_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/types"
)

// TestGatesTogether puts jobs in several queues and shares at once: none of them waits until
// another one admits the tasks.
func TestGatesTogether(t *testing.T) {
	queued, flow, ofTeams := esl.Use{Name: "q"}, esl.Use{Name: "f", As: "a"}, esl.Use{Name: "teams", As: "a"}
	for name, policies := range map[string][]esl.Policy{
		"queue and flow":  {queued, flow},
		"flow and queue":  {flow, queued},
		"queue and share": {queued, ofTeams},
		"flow and share":  {flow, ofTeams},
		"two shares":      {ofTeams, esl.Use{Name: "others", As: "b"}},
		"all of them":     {ofTeams, flow, esl.Use{Name: "others", As: "b"}, queued},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 4)}, "q", admission.Queue{Rate: 4})
				esltest.Declare(s, map[string]esl.Shared{
					"f": admission.FairQueue{Limit: 4, Anyone: 1}, "teams": share.FairShare{Anyone: 1, Over: []string{"cpu"}},
					"others": share.FairShare{Anyone: 1, Over: []string{"cpu"}},
				})
				job := s.Submit(esl.Copies(8, hollow.Task(1000, "run", "2s")), policies...)
				time.Sleep(30 * time.Second)
				if n := len(esltest.Begun(s, job)); n != 8 {
					t.Errorf("%d have begun, want 8", n)
				}
				s.NothingLeft("d/q.queue")
			})
		})
	}
}

// TestGatesOfGangs opens the gates of a gang all or none: no admitted member waits for one that is
// not.
func TestGatesOfGangs(t *testing.T) {
	for name, p := range map[string]esl.Policy{"queue": esl.Use{Name: "q"}, "fair-queue": esl.Use{Name: "f", As: "a"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 8)}, "q", admission.Queue{Rate: 4, Per: manifest.Duration(10 * time.Second)})
				esltest.Declare(s, map[string]esl.Shared{"f": admission.FairQueue{Limit: 4, Anyone: 1}})
				first := s.Submit(esl.Copies(2, hollow.Task(100, "run", "5s")), p)
				time.Sleep(100 * time.Millisecond)
				gang := s.Submit(esl.Copies(3, hollow.Task(100, "run", "5s")), gang.Gang{}, p)
				time.Sleep(100 * time.Millisecond)
				last := s.Submit(esl.Copies(4, hollow.Task(100, "run", "5s")), p)
				time.Sleep(2 * time.Second)
				if a, b, c := len(esltest.Begun(s, first)), len(esltest.Begun(s, gang)), len(esltest.Begun(s, last)); a != 2 || b != 0 || c != 0 {
					t.Errorf("%d, %d of the gang and %d have begun, want 2, 0 and 0", a, b, c)
				}
				for rid := range s.Snapshot().Pools {
					if strings.HasPrefix(string(rid), "d:"+gang.Job+".") {
						t.Errorf("of the gang %s is open, and not all can be", rid)
					}
				}
				time.Sleep(40 * time.Second)
				if a, b, c := len(esltest.Begun(s, first)), len(esltest.Begun(s, gang)), len(esltest.Begun(s, last)); a != 2 || b != 3 || c != 4 {
					t.Errorf("%d, %d of the gang and %d have begun, want 2, 3 and 4", a, b, c)
				}
			})
		})
	}
}

// TestGangTooLargeForGates blocks no other task: the gang was submitted under a larger limit.
func TestGangTooLargeForGates(t *testing.T) {
	for name, p := range map[string]esl.Policy{"queue": esl.Use{Name: "q"}, "fair-queue": esl.Use{Name: "f", As: "a"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 8), NoKeep: true}, "q", admission.Queue{Rate: 8})
				esltest.Declare(s, map[string]esl.Shared{"f": admission.FairQueue{Limit: 8, Anyone: 1}})
				gang := s.Submit(esl.Copies(4, hollow.Task(100, "run", "5s")), gang.Gang{}, p)
				esltest.Declare(s, map[string]esl.Shared{"q": admission.Queue{Rate: 2}, "f": admission.FairQueue{Limit: 2, Anyone: 1}})
				others := s.Submit(esl.Copies(4, hollow.Task(100, "run", "1s")), p)
				s.Keep()
				time.Sleep(10 * time.Second)
				if a, b := len(esltest.Begun(s, gang)), len(esltest.Begun(s, others)); a != 0 || b != 4 {
					t.Errorf("%d of the gang and %d others have begun, want 0 and 4", a, b)
				}
				if why := s.Why(gang.Tasks[0]); !strings.Contains(why, "lets in 2 at once, and its gang has 4 members") {
					t.Errorf("why: %s", why)
				}
			})
		})
	}
}

// TestGatesOfWhatNeverRuns does not let a task that is too large for every node block others.
func TestGatesOfWhatNeverRuns(t *testing.T) {
	for name, p := range map[string]esl.Policy{"queue": esl.Use{Name: "q"}, "fair-queue": esl.Use{Name: "f", As: "a"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 4)}, "q", admission.Queue{Rate: 2})
				esltest.Declare(s, map[string]esl.Shared{"f": admission.FairQueue{Limit: 2, Anyone: 1}})
				large := s.Submit(esl.Copies(2, hollow.Task(50_000)), p)
				small := s.Submit(esl.Copies(4, hollow.Task(100, "run", "1s")), p)
				time.Sleep(20 * time.Second)
				if n := len(esltest.Begun(s, small)); n != 4 {
					t.Errorf("%d have begun, want 4", n)
				}
				if why := s.Why(large.Tasks[0]); why != name+" "+strings.Fields(why)[1]+" does not let it in: no node that takes tasks is large enough for it" {
					t.Errorf("why: %s", why)
				}
			})
		})
	}
}

// TestGatesOfWhatDoesNotBegin closes the gates of tasks that fit on no node, so that others have
// their turn, and opens them again in turn.
func TestGatesOfWhatDoesNotBegin(t *testing.T) {
	for name, p := range map[string]esl.Policy{"queue": esl.Use{Name: "q"}, "fair-queue": esl.Use{Name: "f", As: "a"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 4)}, "q", admission.Queue{Rate: 2})
				esltest.Declare(s, map[string]esl.Shared{"f": admission.FairQueue{Limit: 2, Anyone: 1}})
				s.Submit(esl.Copies(1, hollow.Task(2000, "run", "10m")))
				time.Sleep(time.Second)
				large := s.Submit(esl.Copies(2, hollow.Task(3000, "run", "10s")), p)
				time.Sleep(time.Second)
				small := s.Submit(esl.Copies(4, hollow.Task(1000, "run", "10s")), p)
				time.Sleep(50 * time.Second)
				if n := len(esltest.Begun(s, small)); n != 0 {
					t.Errorf("%d have begun before their turn", n)
				}
				time.Sleep(time.Minute)
				if n := len(esltest.Begun(s, small)); n != 4 {
					t.Errorf("%d have begun, want 4", n)
				}
				time.Sleep(10 * time.Minute)
				if n := len(esltest.Begun(s, large)); n != 2 {
					t.Errorf("%d large ones have begun, want 2", n)
				}
				s.NothingLeft("d/q.queue")
			})
		})
	}
}

// TestFairShareOfAlternatives counts the first possible alternative as demand.
func TestFairShareOfAlternatives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 4)}, "teams", share.FairShare{Anyone: 1, Over: []string{"cpu"}})
		job := s.Submit(esl.Copies(2, hollow.Task(1000, "run", "1s")), place.Near{To: "nodata", Wait: manifest.Wait(time.Second)}, esltest.As("a"))
		time.Sleep(20 * time.Second)
		if n := len(esltest.Begun(s, job)); n != 2 {
			t.Errorf("%d have begun, want 2", n)
		}
	})
}

// TestGatesOfAGangTooLarge admits no member of a gang while one is too large for the nodes that
// take tasks, until a node that is large enough takes tasks.
func TestGatesOfAGangTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := append(hollow.Nodes(1, 4), hollow.Node{Name: "large", Capacity: map[string]types.Quantity{"cpu": 8000}})
		s := esltest.NewSharing(t, hollow.Config{Nodes: nodes}, "q", admission.Queue{Rate: 4, Per: manifest.Duration(10 * time.Second)})
		if _, err := s.Jobs.Cordon(t.Context(), "large", types.Cordon{Reason: "later"}); err != nil {
			t.Fatal(err)
		}
		gang := s.Submit([]controlplane.Submission{hollow.Task(1000, "run", "5s"), hollow.Task(1000, "run", "5s"), hollow.Task(6000, "run", "5s")}, gang.Gang{}, esl.Use{Name: "q"})
		time.Sleep(10 * time.Second)
		for rid := range s.Snapshot().Pools {
			if strings.HasPrefix(string(rid), "d:"+gang.Job+".queue") {
				t.Errorf("%s is open", rid)
			}
		}
		if _, err := s.Jobs.Uncordon(t.Context(), "large"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if n := len(esltest.Begun(s, gang)); n != 3 {
			t.Errorf("%d of the gang have begun, want 3", n)
		}
		s.NothingLeft("d/q.queue")
	})
}
