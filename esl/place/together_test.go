package place_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/types"
)

// TestPlacedByTwo combines policies that say where tasks may go: all tasks run, and then nothing is
// written any more.
func TestPlacedByTwo(t *testing.T) {
	for i, policies := range [][]esl.Policy{
		{place.Spread{Over: esl.Rack}, place.Objective{By: place.Load}},
		{place.Objective{By: place.Load}, place.Spread{Over: esl.Rack}},
		{place.Spread{Over: esl.Rack}, place.Apart{In: esl.Rack, PerNode: 3}},
		{place.Apart{In: esl.Rack, PerNode: 3}, place.Objective{By: place.Leftover}},
		{place.Spread{Over: esl.Rack}, place.Balance{}},
		{place.Spread{Over: esl.Rack}, place.ElasticBalance{}},
		{place.Spread{Over: esl.Rack}, place.Spread{}},
		{place.Pack{}, place.Objective{By: place.Load}},
	} {
		esltest.OnSite(t, hollow.Racks(hollow.Nodes(4, 4), 2), func(s *esltest.Site) {
			job := s.Run("j", esl.Copies(6, hollow.Task(100, "run", "1h")), policies...)
			s.Pass(20 * time.Second)
			if n := len(s.Running(job)); n != 6 {
				t.Errorf("%d: %T and %T: %d of 6 run", i, policies[0], policies[1], n)
				for _, id := range s.Waiting(job) {
					t.Log(s.Why(id))
				}
			}
			before := s.Snapshot().Revision
			s.Pass(time.Minute)
			if after := s.Snapshot().Revision; after > before+10 {
				t.Errorf("%d: %T and %T: %d writes in a minute in which nothing happens", i, policies[0], policies[1], after-before)
			}
		})
	}
}

// TestTogetherIsRefused names policies that exclude each other.
func TestTogetherIsRefused(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(4, 16), func(s *esltest.Site) {
		tasks := make([]controlplane.Submission, 8)
		for i := range tasks {
			tasks[i] = hollow.Task(100)
			tasks[i].Task.Name = fmt.Sprintf("t%d", i)
		}
		for want, policies := range map[string][]esl.Policy{
			"gang and after exclude each other":               {gang.Gang{}, admission.After{Tasks: map[string][]string{"t1": {"t0"}}}},
			"gang and barrier exclude each other":             {admission.Barrier{Tasks: []string{"t0"}}, gang.Gang{}},
			"gang and elastic-balance exclude each other":     {gang.Gang{}, place.ElasticBalance{}},
			"colocate and balance exclude each other":         {place.Colocate{}, place.Balance{Nodes: 2}},
			"balance and spread exclude each other":           {place.Balance{Nodes: 2}, place.Spread{Over: esl.Rack}},
			"objective and objective exclude each other":      {place.Objective{By: place.Load}, place.Objective{By: place.Leftover}},
			"apart has at most 1 on one node, of which there": {gang.Gang{}, place.Apart{}},
			"gang and spread exclude each other: the one has all 8 tasks on one rack, the other has at most 1 more on one rack than on another":     {place.Spread{Over: esl.Rack}, gang.Gang{In: esl.Rack}},
			"gang and spread exclude each other: the one has all 8 tasks on one node, the other has at most 3 more on one zone than on another":     {gang.Gang{In: esl.Node}, place.Spread{Over: esl.Zone, MaxSkew: 3}},
			"colocate and spread exclude each other: the one has all 8 tasks on one node, the other has at most 1 more on one rack than on another": {room.Elastic{Min: 2}, place.Colocate{}, place.Spread{Over: esl.Rack}},
			"gang and balance exclude each other: the one has all 8 tasks on one node, the other has as many on each node":                          {gang.Gang{In: esl.Node}, place.Balance{}},
			"perNode: 2 are to be together on a node, and spread has at most 1 more on one node than on another: have that be 2":                    {gang.Gang{PerNode: 2}, place.Spread{}},
			"gang and objective exclude each other: the one has 2 tasks together on a node, the other chooses a node for each":                      {place.Objective{By: place.Load}, gang.Gang{PerNode: 2}},
			"gang and objective exclude each other: the one has 8 tasks together on a node, the other chooses a node for each":                      {place.Objective{By: place.Load}, gang.Gang{In: esl.Node}},
			"colocate is there twice, and each time chooses where all tasks are: drop the one with rack":                                            {place.Colocate{}, place.Colocate{In: esl.Rack}},
		} {
			_, err := s.Jobs.Submit(s.Context(), controlplane.Job{Name: "x", Tasks: tasks}, policies...)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		s.Run("ok", tasks, place.Colocate{In: esl.Rack}, place.Balance{Nodes: 2})
		s.Run("ok", tasks[:4], gang.Gang{}, place.Apart{})
		s.Run("ok", tasks[:2], gang.Gang{PerNode: 2}, place.Spread{MaxSkew: 2})
	})
}

// TestTooFewInOne refuses a gang in one rack or zone if each has too few of the domains that keep
// its tasks apart.
func TestTooFewInOne(t *testing.T) {
	nodes := hollow.Racks(hollow.Nodes(6, 8), 2)
	for i := range nodes {
		nodes[i].Labels["zone"] = fmt.Sprint("z", (i+2)/4) // z0 has one rack
	}
	esltest.OnSite(t, nodes, func(s *esltest.Site) {
		for want, policies := range map[string][]esl.Policy{
			"on one rack, and apart has at most 1 on one node, of which no rack has more than 2":   {gang.Gang{In: esl.Rack}, place.Apart{}},
			"on one rack, and balance has at most 1 on one node, of which no rack has more than 2": {place.Colocate{In: esl.Rack}, gang.Gang{}, place.Balance{Nodes: 3}},
			"on one zone, and apart has at most 1 on one rack, of which no zone has more than 2":   {place.Apart{In: esl.Rack}, gang.Gang{In: esl.Zone}},
		} {
			_, err := s.Jobs.Submit(s.Context(), controlplane.Job{Name: "x", Tasks: esl.Copies(3, hollow.Task(100))}, policies...)
			if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		two := s.Run("ok", esl.Copies(2, hollow.Task(100)), place.Apart{In: esl.Rack}, gang.Gang{In: esl.Zone})
		s.Await("zone", "z1 2", two)
	})
}

// TestGangOfNineIsRefused refuses a gang with a policy that divides its tasks among nodes if that
// allows fewer on one node, or in all, than the gang has.
func TestGangOfNineIsRefused(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(4, 16), func(s *esltest.Site) {
		nine := esl.Copies(9, hollow.Task(100))
		for want, policies := range map[string][]esl.Policy{
			"gang and balance exclude each other: all 9 tasks on one node, and at most 5": {gang.Gang{In: esl.Node}, place.Balance{Nodes: 2}},
			"perNode: 6 are to be together on a node, and balance has at most 5 on one":   {place.Balance{Nodes: 2}, gang.Gang{PerNode: 6}},
			"perNode: 12 are to be together on a node, and apart has at most 8 on one":    {gang.Gang{PerNode: 12}, place.Apart{PerNode: 8}},
			"perNode: 12 are to be together on a node, and apart has at most 8 on one r":  {place.Apart{PerNode: 8, In: esl.Rack}, gang.Gang{PerNode: 12}},
			"all 9 tasks are to begin at once, and apart has at most 2 on one node, of":   {gang.Gang{}, place.Apart{PerNode: 2}},
		} {
			_, err := s.Jobs.Submit(s.Context(), controlplane.Job{Name: "x", Tasks: nine}, policies...)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		for _, policies := range [][]esl.Policy{{gang.Gang{PerNode: 5}, place.Balance{Nodes: 2}}, {gang.Gang{PerNode: 3}, place.Apart{PerNode: 3}}} {
			s.Pass(20 * time.Second)
			if job := s.Run("ok", nine, policies...); len(job.Tasks) != 9 {
				t.Errorf("%d tasks", len(job.Tasks))
			} else if s.Pass(20 * time.Second); len(s.Running(job)) != 9 {
				t.Errorf("%v: %d of 9 run: %s", policies, len(s.Running(job)), s.Why(job.Tasks[0]))
			}
		}
	})
}

// TestAheadOfWhoCannotBegin: tasks that wait for something else do not block others of a shared
// objective.
func TestAheadOfWhoCannotBegin(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(2, 8), func(s *esltest.Site) {
		s.Must(s.Jobs.Declare(s.Context(), "best", place.Objective{By: place.Load}, ""))
		_, err := s.Jobs.SetResource(s.Context(), "licence", 0, controlplane.InCluster(), controlplane.SetOptions{Declare: true})
		s.Must(err)
		held := hollow.Task(100, "run", "1h")
		held.Task.Requests = held.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"licence": 1000}))
		before := s.Run("held", esl.Copies(30, held), esl.Use{Name: "best"})
		s.Pass(5 * time.Second)
		job := s.Run("free", esl.Copies(4, hollow.Task(100, "run", "1h")), esl.Use{Name: "best"})
		s.Await(esl.Node, "n00 2, n01 2", job)
		_, err = s.Jobs.SetResource(s.Context(), "licence", types.Inf, controlplane.InCluster(), controlplane.SetOptions{})
		s.Must(err)
		s.Await(esl.Node, "n00 15, n01 15", before)
	})
}

// TestColocateWithNamesake follows, of several with one name, the task on a node.
func TestColocateWithNamesake(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(3, 8), func(s *esltest.Site) {
		s.Run("web", esl.Copies(1, hollow.Task(100, "run", "1s")))
		s.Pass(3 * time.Second)
		live := esltest.TaskOn("n02", 100, "run", "1h")
		live.Task.Name = "web"
		_, err := s.Jobs.Launch(s.Context(), live)
		s.Must(err)
		job := s.Run("near", esl.Copies(1, hollow.Task(100, "run", "1h")), place.Colocate{With: "web"})
		s.Await(esl.Node, "n02 1", job)
	})
}

// TestPreferNothing refuses an empty choice.
func TestPreferNothing(t *testing.T) {
	err := place.Prefer{Of: []place.Choice{{Rack: "r0"}, {}}}.Validate()
	if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "of[1]: says no place") {
		t.Errorf("%v", err)
	}
}
