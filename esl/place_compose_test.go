package esl_test

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// six are three racks of two nodes. On n05 are data, a resource that few have, and a task;
// on all others are tasks, too, so that nobody chooses n05 by chance, nor n00 as the first.
func six(t *testing.T, test func(s *site)) {
	t.Helper()
	onSite(t, hollow.Racks(hollow.Nodes(6, 8), 2), func(s *site) {
		s.must(esl.Replicate(s.Context(), s.jobs.Client, "data", "n05"))
		_, err := s.jobs.SetResource(s.Context(), "rare", types.Inf, controlplane.OnNode("n05"), controlplane.SetOptions{})
		s.must(err)
		other := taskOn("n05", 100)
		other.Task.Name = "other"
		_, err = s.jobs.Launch(s.Context(), other, taskOn("n05", 100), taskOn("n00", 500), taskOn("n01", 100))
		s.must(err)
		s.view()
		test(s)
	})
}

// TestPlacedAmongWhatElseIsAskedFor has policies choose among the nodes that all else allows
// that the tasks ask for, so that all run in an empty cluster.
func TestPlacedAmongWhatElseIsAskedFor(t *testing.T) {
	near, with, prefer := esl.Near{To: "data"}, esl.Colocate{With: "other"}, esl.Prefer{Of: []esl.Choice{{Node: "n05"}}}
	rare := hollow.Task(500)
	rare.Task.Requests = rare.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"rare": 1}))
	for name, c := range map[string]struct {
		want     string
		each     controlplane.Submission
		policies []esl.Policy
	}{
		"balance, near data":                   {"n05 6", hollow.Task(500), []esl.Policy{esl.Balance{Nodes: 1}, near}},
		"balance, with others":                 {"n05 6", hollow.Task(500), []esl.Policy{with, esl.Balance{Nodes: 2}}},
		"balance, preferring":                  {"n05 6", hollow.Task(500), []esl.Policy{esl.Balance{Nodes: 1}, prefer}},
		"balance, what few have":               {"n05 6", rare, []esl.Policy{esl.Balance{Nodes: 2}}},
		"balance on all, what few have":        {"n05 6", rare, []esl.Policy{esl.Balance{}}},
		"balance, together in a rack":          {"n00 3, n01 3 | n02 3, n03 3 | n04 3, n05 3", hollow.Task(500), []esl.Policy{esl.Balance{Nodes: 3}, esl.Colocate{In: esl.Rack}}},
		"colocate, preferring":                 {"n05 6", hollow.Task(500), []esl.Policy{esl.Colocate{}, prefer}},
		"colocate, preferring one":             {"n04 6", hollow.Task(500), []esl.Policy{esl.Colocate{}, esl.Prefer{Of: []esl.Choice{{Node: "n04"}, {Node: "n02"}}}}},
		"colocate, preferring what is nowhere": {"n05 6", hollow.Task(500), []esl.Policy{esl.Colocate{}, esl.Prefer{Of: []esl.Choice{{Requests: map[string]manifest.Amount{"none": "1"}}, {Node: "n05"}}}}},
		"colocate twice":                       {"n05 6", hollow.Task(500), []esl.Policy{esl.Colocate{}, with}},
		"pack, preferring":                     {"n05 6", hollow.Task(500), []esl.Policy{prefer, esl.Pack{}}},
		"objective, preferring":                {"n05 6", hollow.Task(500), []esl.Policy{esl.Objective{By: esl.Load}, prefer}},
		"elastic-balance, preferring":          {"n05 6", hollow.Task(500), []esl.Policy{esl.ElasticBalance{}, prefer}},
		"spread, preferring":                   {"n05 6", hollow.Task(500), []esl.Policy{esl.Spread{Over: esl.Rack}, prefer}},
		"spread, near data":                    {"n05 6", hollow.Task(500), []esl.Policy{esl.Spread{}, near}},
		"gang in a rack, balanced":             {"n00 3, n01 3 | n02 3, n03 3 | n04 3, n05 3", hollow.Task(500), []esl.Policy{esl.Gang{In: esl.Rack}, esl.Balance{}}},
		"gang in a rack, spread":               {"n00 3, n01 3 | n02 3, n03 3 | n04 3, n05 3", hollow.Task(500), []esl.Policy{esl.Spread{}, esl.Gang{In: esl.Rack}}},
		"gang in a rack, with others":          {"n05 6", hollow.Task(500), []esl.Policy{with, esl.Gang{In: esl.Rack}}},
		"gang of pairs, balanced":              {"n00 2, n01 2, n02 2 | n00 2, n01 2, n03 2 | n02 2, n03 2, n04 2 | n01 2, n02 2, n03 2", hollow.Task(500), []esl.Policy{esl.Gang{PerNode: 2}, esl.Balance{}}},
		"gang on a node, objective":            {"n00 6", hollow.Task(500), []esl.Policy{esl.Gang{}, esl.Colocate{}, esl.Objective{By: esl.Load}}},
	} {
		t.Run(name, func(t *testing.T) {
			six(t, func(s *site) {
				s.await(esl.Node, c.want, s.run("j", esl.Copies(6, c.each), c.policies...))
			})
		})
	}
}

// TestGangAmongChosenNodes has gangs of which others choose the nodes: more than an objective
// assigns ahead, in one rack of those that there are, and in pairs of which one more core is
// free on each node than a number of pairs takes.
func TestGangAmongChosenNodes(t *testing.T) {
	for name, c := range map[string]struct {
		n        int
		want     string
		policies []esl.Policy
	}{
		"more than are ahead": {30, "", []esl.Policy{esl.Gang{}, esl.Objective{By: esl.Load, Ahead: 8}}},
		"elastic core":        {30, "", []esl.Policy{esl.Elastic{Min: 28}, esl.Objective{By: esl.Load, Ahead: 8}}},
		"in one rack":         {8, "r0 8 | r1 8", []esl.Policy{esl.Gang{In: esl.Rack}, esl.Objective{By: esl.Load}}},
		"pairs over racks":    {16, "r0 8, r1 8", []esl.Policy{esl.Gang{PerNode: 2}, esl.Spread{Over: esl.Rack, MaxSkew: 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			onSite(t, hollow.Racks(hollow.Nodes(6, 5), 3), func(s *site) {
				job := s.run("j", esl.Copies(c.n, hollow.Task(1000)), c.policies...)
				if s.pass(30 * time.Second); len(s.running(job)) != c.n {
					t.Errorf("%d of %d run: %s", len(s.running(job)), c.n, s.why(job.Tasks[c.n-1]))
				}
				if c.want != "" {
					s.await(esl.Rack, c.want, job)
				}
			})
		})
	}
}

// TestBalanceChoosesAnew: what was chosen and cannot hold the tasks is given up while none of
// them is there: when it is full, and when the data is elsewhere. They are never on more nodes.
func TestBalanceChoosesAnew(t *testing.T) {
	onSite(t, hollow.Nodes(3, 4), func(s *site) {
		full := esl.Copies(4, taskOn("n00", 900))
		filled := s.run("full", append(append(full, esl.Copies(5, taskOn("n01", 500))...), esl.Copies(6, taskOn("n02", 100))...))
		s.await(esl.Node, "n00 4, n01 5, n02 6", filled)
		s.await(esl.Node, "n02 3", s.run("few", esl.Copies(3, hollow.Task(1000)), esl.Balance{Nodes: 1}))
		s.stop(filled.Tasks...)

		job := s.run("near", esl.Copies(4, hollow.Task(100)), esl.Balance{Nodes: 1}, esl.Near{To: "late"})
		s.says(job.Tasks[0], "near: it is to be near late, which is nowhere yet")
		s.must(esl.Replicate(s.Context(), s.jobs.Client, "late", "n02"))
		s.await(esl.Node, "n02 4", job)
		s.must(s.c.Kill(s.Context(), "n02"))
		s.must(esl.Replicate(s.Context(), s.jobs.Client, "late", "n01"))
		s.await(esl.Node, "n01 4", job)
	})
}

// TestWaysOpenLater: a place that is chosen for tasks goes by where they may go by then, also
// when nothing else happens.
func TestWaysOpenLater(t *testing.T) {
	later := esl.Prefer{Of: []esl.Choice{{Node: "n01"}, {Node: "n03", After: manifest.Duration(5 * time.Second)}}}
	for _, p := range []esl.Policy{esl.Colocate{}, esl.Balance{Nodes: 1}, esl.Pack{}, esl.Objective{By: esl.Load}, esl.Spread{Over: esl.Rack, MaxSkew: 3}, esl.Apart{In: esl.Rack, PerNode: 4}, esl.ElasticBalance{}} {
		t.Run(p.Kind(), func(t *testing.T) {
			onSite(t, hollow.Racks(hollow.Nodes(4, 4), 2), func(s *site) {
				full := s.run("full", esl.Copies(4, taskOn("n01", 1000)))
				s.await(esl.Node, "n01 4", full)
				began := time.Now()
				s.await(esl.Node, "n03 3", s.run("j", esl.Copies(3, hollow.Task(1000)), p, later))
				if took := time.Since(began); took < 5*time.Second || took > 8*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}
