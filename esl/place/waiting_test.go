package place_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// TestManyWait lets jobs of all policies that open nodes wait for two full nodes. Whenever tasks end, others
// begin within two seconds, as many as fit, until all have run. Few write anything before that.
func TestManyWait(t *testing.T) {
	const jobs = 60
	esltest.OnSite(t, hollow.Nodes(2, 4), func(s *esltest.Site) {
		big := s.Run("big", []controlplane.Submission{esltest.TaskOn("n00", 4000), esltest.TaskOn("n01", 4000)})
		s.Await(esl.Node, "n00 1, n01 1", big)
		policies := []esl.Policy{place.Objective{By: place.Load}, place.Pack{}, place.Spread{}, place.Balance{}, place.Colocate{In: esl.Node}, place.Apart{}}
		all := make(map[string]bool)
		for i := range jobs {
			job := s.Run(fmt.Sprintf("j%02d", i), esl.Copies(1, hollow.Task(1000)), policies[i%len(policies)])
			all[job.Tasks[0]] = true
		}
		s.Pass(5 * time.Second)
		s.Stop(big.Tasks...)
		for n := 0; len(all) > 0; n++ {
			v, begun := s.Snapshot(), []string(nil)
			for id := range all {
				if v.Task(esltest.IDOf(id)).Phase() == types.Running {
					begun = append(begun, id)
				}
			}
			if want := min(8, len(all)); len(begun) != want {
				t.Fatalf("round %d: %d tasks run, and there is room for %d", n, len(begun), want)
			}
			for _, id := range begun {
				delete(all, id)
			}
			s.Stop(begun...)
		}
	})
}

// TestFreedNodeIsNotFoughtFor frees a node while many jobs wait that choose nodes themselves: those that it
// takes choose it, and the others write nothing.
func TestFreedNodeIsNotFoughtFor(t *testing.T) {
	for _, policy := range []esl.Policy{place.Objective{By: place.Load}, place.Pack{}} {
		esltest.OnSite(t, hollow.Nodes(1, 4), func(s *esltest.Site) {
			big := s.Run("big", []controlplane.Submission{esltest.TaskOn("n00", 4000)})
			s.Await(esl.Node, "n00 1", big)
			for i := range 50 {
				s.Run(fmt.Sprintf("j%02d", i), esl.Copies(1, hollow.Task(1000)), policy)
			}
			before := s.Snapshot().Revision
			s.Stop(big.Tasks...)
			s.Snapshot()
			opened := 0
			for _, b := range s.C.Store.(*memstore.Store).Events(before + 1) {
				for _, e := range b.Events {
					if at, ok := controlplane.Parse(e.Key); ok && at.Kind == controlplane.Resources && at.Where == "n00" {
						opened++
					}
				}
			}
			if opened < 4 || opened > 16 {
				t.Errorf("%s: capacity is opened or closed %d times for four tasks", policy.Kind(), opened)
			}
		})
	}
}
