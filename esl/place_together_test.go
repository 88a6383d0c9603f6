package esl_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// TestPlacedByTwo has policies that say where the tasks are to be go together: all tasks
// run, and then nothing is written any more.
func TestPlacedByTwo(t *testing.T) {
	for i, policies := range [][]esl.Policy{
		{esl.Spread{Over: esl.Rack}, esl.Objective{By: esl.Load}},
		{esl.Objective{By: esl.Load}, esl.Spread{Over: esl.Rack}},
		{esl.Spread{Over: esl.Rack}, esl.Apart{In: esl.Rack, PerNode: 3}},
		{esl.Apart{In: esl.Rack, PerNode: 3}, esl.Objective{By: esl.Leftover}},
		{esl.Spread{Over: esl.Rack}, esl.Balance{}},
		{esl.Spread{Over: esl.Rack}, esl.ElasticBalance{}},
		{esl.Spread{Over: esl.Rack}, esl.Spread{}},
		{esl.Pack{}, esl.Objective{By: esl.Load}},
	} {
		onSite(t, hollow.Racks(hollow.Nodes(4, 4), 2), func(s *site) {
			job := s.run("j", esl.Copies(6, hollow.Task(100, "run", "1h")), policies...)
			s.pass(20 * time.Second)
			if n := len(s.running(job)); n != 6 {
				t.Errorf("%d: %T and %T: %d of 6 run", i, policies[0], policies[1], n)
				for _, id := range s.waiting(job) {
					t.Log(s.why(id))
				}
			}
			before := s.view().Revision
			s.pass(time.Minute)
			if after := s.view().Revision; after > before+10 {
				t.Errorf("%d: %T and %T: %d writes in a minute in which nothing happens", i, policies[0], policies[1], after-before)
			}
		})
	}
}

// TestTogetherIsRefused names policies that can never be met together.
func TestTogetherIsRefused(t *testing.T) {
	onSite(t, hollow.Nodes(4, 16), func(s *site) {
		tasks := make([]controlplane.Submission, 8)
		for i := range tasks {
			tasks[i] = hollow.Task(100)
			tasks[i].Task.Name = fmt.Sprintf("t%d", i)
		}
		for want, policies := range map[string][]esl.Policy{
			"gang and after exclude each other":               {esl.Gang{}, esl.After{Tasks: map[string][]string{"t1": {"t0"}}}},
			"gang and barrier exclude each other":             {esl.Barrier{Tasks: []string{"t0"}}, esl.Gang{}},
			"gang and elastic-balance exclude each other":     {esl.Gang{}, esl.ElasticBalance{}},
			"colocate and balance exclude each other":         {esl.Colocate{}, esl.Balance{Nodes: 2}},
			"balance and spread exclude each other":           {esl.Balance{Nodes: 2}, esl.Spread{Over: esl.Rack}},
			"objective and objective exclude each other":      {esl.Objective{By: esl.Load}, esl.Objective{By: esl.Leftover}},
			"apart has at most 1 on one node, of which there": {esl.Gang{}, esl.Apart{}},
			"gang and spread exclude each other: the one has all 8 tasks on one rack, the other has at most 1 more on one rack than on another":     {esl.Spread{Over: esl.Rack}, esl.Gang{In: esl.Rack}},
			"gang and spread exclude each other: the one has all 8 tasks on one node, the other has at most 3 more on one zone than on another":     {esl.Gang{In: esl.Node}, esl.Spread{Over: esl.Zone, MaxSkew: 3}},
			"colocate and spread exclude each other: the one has all 8 tasks on one node, the other has at most 1 more on one rack than on another": {esl.Elastic{Min: 2}, esl.Colocate{}, esl.Spread{Over: esl.Rack}},
			"gang and balance exclude each other: the one has all 8 tasks on one node, the other has as many on each node":                          {esl.Gang{In: esl.Node}, esl.Balance{}},
			"perNode: 2 are to be together on a node, and spread has at most 1 more on one node than on another: have that be 2":                    {esl.Gang{PerNode: 2}, esl.Spread{}},
			"gang and objective exclude each other: the one has 2 tasks together on a node, the other chooses a node for each":                      {esl.Objective{By: esl.Load}, esl.Gang{PerNode: 2}},
			"gang and objective exclude each other: the one has 8 tasks together on a node, the other chooses a node for each":                      {esl.Objective{By: esl.Load}, esl.Gang{In: esl.Node}},
			"colocate is there twice, and each time chooses where all tasks are: drop the one with rack":                                            {esl.Colocate{}, esl.Colocate{In: esl.Rack}},
		} {
			_, err := s.jobs.Submit(s.Context(), esl.Job{Name: "x", Tasks: tasks}, policies...)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		s.run("ok", tasks, esl.Colocate{In: esl.Rack}, esl.Balance{Nodes: 2})
		s.run("ok", tasks[:4], esl.Gang{}, esl.Apart{})
		s.run("ok", tasks[:2], esl.Gang{PerNode: 2}, esl.Spread{MaxSkew: 2})
	})
}

// TestTooFewInOne: a gang that is in one rack, or zone, is refused when none of these has as
// many of what its tasks are kept apart by.
func TestTooFewInOne(t *testing.T) {
	nodes := hollow.Racks(hollow.Nodes(6, 8), 2)
	for i := range nodes {
		nodes[i].Labels["zone"] = fmt.Sprint("z", (i+2)/4) // z0 has one rack
	}
	onSite(t, nodes, func(s *site) {
		for want, policies := range map[string][]esl.Policy{
			"on one rack, and apart has at most 1 on one node, of which no rack has more than 2":   {esl.Gang{In: esl.Rack}, esl.Apart{}},
			"on one rack, and balance has at most 1 on one node, of which no rack has more than 2": {esl.Colocate{In: esl.Rack}, esl.Gang{}, esl.Balance{Nodes: 3}},
			"on one zone, and apart has at most 1 on one rack, of which no zone has more than 2":   {esl.Apart{In: esl.Rack}, esl.Gang{In: esl.Zone}},
		} {
			_, err := s.jobs.Submit(s.Context(), esl.Job{Name: "x", Tasks: esl.Copies(3, hollow.Task(100))}, policies...)
			if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		two := s.run("ok", esl.Copies(2, hollow.Task(100)), esl.Apart{In: esl.Rack}, esl.Gang{In: esl.Zone})
		s.await("zone", "z1 2", two)
	})
}

// TestGangOfNineIsRefused: a gang and a policy that divides its tasks among nodes are refused
// when that has fewer on one node than the gang has together, or in all.
func TestGangOfNineIsRefused(t *testing.T) {
	onSite(t, hollow.Nodes(4, 16), func(s *site) {
		nine := esl.Copies(9, hollow.Task(100))
		for want, policies := range map[string][]esl.Policy{
			"gang and balance exclude each other: all 9 tasks on one node, and at most 5": {esl.Gang{In: esl.Node}, esl.Balance{Nodes: 2}},
			"perNode: 6 are to be together on a node, and balance has at most 5 on one":   {esl.Balance{Nodes: 2}, esl.Gang{PerNode: 6}},
			"perNode: 12 are to be together on a node, and apart has at most 8 on one":    {esl.Gang{PerNode: 12}, esl.Apart{PerNode: 8}},
			"perNode: 12 are to be together on a node, and apart has at most 8 on one r":  {esl.Apart{PerNode: 8, In: esl.Rack}, esl.Gang{PerNode: 12}},
			"all 9 tasks are to begin at once, and apart has at most 2 on one node, of":   {esl.Gang{}, esl.Apart{PerNode: 2}},
		} {
			_, err := s.jobs.Submit(s.Context(), esl.Job{Name: "x", Tasks: nine}, policies...)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		for _, policies := range [][]esl.Policy{{esl.Gang{PerNode: 5}, esl.Balance{Nodes: 2}}, {esl.Gang{PerNode: 3}, esl.Apart{PerNode: 3}}} {
			s.pass(20 * time.Second)
			if job := s.run("ok", nine, policies...); len(job.Tasks) != 9 {
				t.Errorf("%d tasks", len(job.Tasks))
			} else if s.pass(20 * time.Second); len(s.running(job)) != 9 {
				t.Errorf("%v: %d of 9 run: %s", policies, len(s.running(job)), s.why(job.Tasks[0]))
			}
		}
	})
}

// TestAheadOfWhoCannotBegin has tasks that wait for something else keep nobody out of a
// shared objective.
func TestAheadOfWhoCannotBegin(t *testing.T) {
	onSite(t, hollow.Nodes(2, 8), func(s *site) {
		s.must(s.jobs.Declare(s.Context(), "best", esl.Objective{By: esl.Load}, ""))
		_, err := s.jobs.SetResource(s.Context(), "licence", 0, controlplane.InCluster(), controlplane.SetOptions{Declare: true})
		s.must(err)
		held := hollow.Task(100, "run", "1h")
		held.Task.Requests = held.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"licence": 1000}))
		before := s.run("held", esl.Copies(30, held), esl.Placed{By: "best"})
		s.pass(5 * time.Second)
		job := s.run("free", esl.Copies(4, hollow.Task(100, "run", "1h")), esl.Placed{By: "best"})
		s.await(esl.Node, "n00 2, n01 2", job)
		_, err = s.jobs.SetResource(s.Context(), "licence", types.Inf, controlplane.InCluster(), controlplane.SetOptions{})
		s.must(err)
		s.await(esl.Node, "n00 15, n01 15", before)
	})
}

// TestColocateWithNamesake goes by what is on a node, of several of a name.
func TestColocateWithNamesake(t *testing.T) {
	onSite(t, hollow.Nodes(3, 8), func(s *site) {
		s.run("web", esl.Copies(1, hollow.Task(100, "run", "1s")))
		s.pass(3 * time.Second)
		live := taskOn("n02", 100, "run", "1h")
		live.Task.Name = "web"
		_, err := s.jobs.Launch(s.Context(), live)
		s.must(err)
		job := s.run("near", esl.Copies(1, hollow.Task(100, "run", "1h")), esl.Colocate{With: "web"})
		s.await(esl.Node, "n02 1", job)
	})
}

// TestPreferNothing: a choice of which nothing is said is refused.
func TestPreferNothing(t *testing.T) {
	err := esl.Prefer{Of: []esl.Choice{{Rack: "r0"}, {}}}.Validate()
	if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "of[1]: says no place") {
		t.Errorf("%v", err)
	}
}
