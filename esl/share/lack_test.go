package share_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/types"
)

// TestGatesAreWoken submits tasks that request resources which appear later, without other events:
// the policies that admit them, or keep a share for them, are called then.
func TestGatesAreWoken(t *testing.T) {
	set := func(s *esltest.Sharing, capacity types.Quantity, where controlplane.Where) {
		s.T.Helper()
		if _, err := s.Jobs.SetResource(s.T.Context(), "foo", capacity, where, controlplane.SetOptions{}); err != nil {
			s.T.Fatal(err)
		}
	}
	provided := func(when types.When, command ...string) func(s *esltest.Sharing) {
		return func(s *esltest.Sharing) {
			x := hollow.Task(100, command...)
			x.Task.Provides = []types.Provide{{Name: "foo", Amount: types.Inf, When: when}}
			s.Submit(esl.Copies(1, x))
		}
	}
	short := hollow.Task(500, "run", "1s")
	foo := esltest.Asking(short, "foo", 1000)
	tests := map[string]struct {
		task    controlplane.Submission
		more    []esl.Policy
		before  func(s *esltest.Sharing)
		becomes func(s *esltest.Sharing)
	}{
		"made on a node":       {task: foo, becomes: func(s *esltest.Sharing) { set(s, types.Inf, controlplane.OnNode("n00")) }},
		"made everywhere":      {task: foo, becomes: func(s *esltest.Sharing) { set(s, types.Inf, controlplane.OnEvery()) }},
		"made a pool":          {task: foo, becomes: func(s *esltest.Sharing) { set(s, types.Inf, controlplane.InCluster()) }},
		"a pool that grows":    {task: foo, before: func(s *esltest.Sharing) { set(s, 500, controlplane.InCluster()) }, becomes: func(s *esltest.Sharing) { set(s, 4000, controlplane.InCluster()) }},
		"provided, bound":      {task: foo, becomes: provided(types.WhenBound)},
		"provided, running":    {task: foo, becomes: provided(types.WhenRunning)},
		"provided, in the end": {task: foo, becomes: provided(types.WhenSucceeded, "run", "1s")},
		"one after the other": {task: esltest.Asking(short, "bar", 1), more: []esl.Policy{place.Near{To: "foo"}}, becomes: func(s *esltest.Sharing) {
			set(s, types.Inf, controlplane.OnNode("n01"))
			time.Sleep(2 * time.Second)
			if _, err := s.Jobs.SetResource(s.T.Context(), "bar", types.Inf, controlplane.OnEvery(), controlplane.SetOptions{}); err != nil {
				s.T.Fatal(err)
			}
		}},
		"gone and made again": {task: foo, before: func(s *esltest.Sharing) {
			set(s, types.Inf, controlplane.OnNode("n00"))
			set(s, 0, controlplane.OnNode("n00"))
		}, becomes: func(s *esltest.Sharing) { set(s, types.Inf, controlplane.OnNode("n01")) }},
		"data near by":     {task: short, more: []esl.Policy{place.Near{To: "foo"}}, becomes: func(s *esltest.Sharing) { set(s, types.Inf, controlplane.OnNode("n01")) }},
		"data in the rack": {task: short, more: []esl.Policy{place.Near{To: "foo", In: esl.Rack}}, becomes: func(s *esltest.Sharing) { set(s, types.Inf, controlplane.OnNode("n01")) }},
		"a node large enough": {task: esltest.Asking(short, "acme.com/fpga", 1000), becomes: func(s *esltest.Sharing) {
			s.Add(hollow.Node{Name: "late", Capacity: map[string]types.Quantity{"cpu": 4000, "acme.com/fpga": 4000}})
		}},
	}
	for name, test := range tests {
		for _, by := range []esl.Policy{esl.Use{Name: "q"}, esl.Use{Name: "f", As: "a"}, esl.Use{Name: "teams", As: "a"}} {
			t.Run(name+"/"+by.Kind(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Racks(hollow.Nodes(2, 4), 2)}, "q", admission.Queue{Rate: 2, Per: manifest.Duration(time.Second)})
					esltest.Declare(s, map[string]esl.Shared{"f": admission.FairQueue{Limit: 2, Anyone: 1}, "teams": share.FairShare{Anyone: 1, Over: []string{"cpu"}}})
					if test.before != nil {
						test.before(s)
					}
					job := s.Submit(esl.Copies(2, test.task), append(test.more, by)...)
					time.Sleep(10 * time.Second)
					if n := len(esltest.Begun(s, job)); n != 0 {
						t.Fatalf("%d have begun before", n)
					}
					test.becomes(s)
					time.Sleep(10 * time.Second)
					if n := len(esltest.Begun(s, job)); n != 2 {
						t.Errorf("%d have begun, want 2", n)
					}
				})
			})
		}
	}
}
