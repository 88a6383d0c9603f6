package place_test

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/types"
)

// six is three racks of two nodes. n05 has data, a rare resource, and a task; all others have
// tasks, too, so that no policy chooses n05 by chance, nor n00 as the first.
func six(t *testing.T, test func(s *esltest.Site)) {
	t.Helper()
	esltest.OnSite(t, hollow.Racks(hollow.Nodes(6, 8), 2), func(s *esltest.Site) {
		s.Must(place.Replicate(s.Context(), s.Jobs.Client, "data", "n05"))
		_, err := s.Jobs.SetResource(s.Context(), "rare", types.Inf, controlplane.OnNode("n05"), controlplane.SetOptions{})
		s.Must(err)
		other := esltest.TaskOn("n05", 100)
		other.Task.Name = "other"
		_, err = s.Jobs.Launch(s.Context(), other, esltest.TaskOn("n05", 100), esltest.TaskOn("n00", 500), esltest.TaskOn("n01", 100))
		s.Must(err)
		s.Snapshot()
		test(s)
	})
}

// TestPlacedAmongWhatElseIsAskedFor makes policies choose among the nodes that the other requests
// allow, so that all tasks run in an empty cluster.
func TestPlacedAmongWhatElseIsAskedFor(t *testing.T) {
	near, with, prefer := place.Near{To: "data"}, place.Colocate{With: "other"}, place.Prefer{Of: []place.Choice{{Node: "n05"}}}
	rare := hollow.Task(500)
	rare.Task.Requests = rare.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"rare": 1}))
	for name, c := range map[string]struct {
		want     string
		each     controlplane.Submission
		policies []esl.Policy
	}{
		"balance, near data":                   {"n05 6", hollow.Task(500), []esl.Policy{place.Balance{Nodes: 1}, near}},
		"balance, with others":                 {"n05 6", hollow.Task(500), []esl.Policy{with, place.Balance{Nodes: 2}}},
		"balance, preferring":                  {"n05 6", hollow.Task(500), []esl.Policy{place.Balance{Nodes: 1}, prefer}},
		"balance, what few have":               {"n05 6", rare, []esl.Policy{place.Balance{Nodes: 2}}},
		"balance on all, what few have":        {"n05 6", rare, []esl.Policy{place.Balance{}}},
		"balance, together in a rack":          {"n00 3, n01 3 | n02 3, n03 3 | n04 3, n05 3", hollow.Task(500), []esl.Policy{place.Balance{Nodes: 3}, place.Colocate{In: esl.Rack}}},
		"colocate, preferring":                 {"n05 6", hollow.Task(500), []esl.Policy{place.Colocate{}, prefer}},
		"colocate, preferring one":             {"n04 6", hollow.Task(500), []esl.Policy{place.Colocate{}, place.Prefer{Of: []place.Choice{{Node: "n04"}, {Node: "n02"}}}}},
		"colocate, preferring what is nowhere": {"n05 6", hollow.Task(500), []esl.Policy{place.Colocate{}, place.Prefer{Of: []place.Choice{{Requests: map[string]manifest.Amount{"none": "1"}}, {Node: "n05"}}}}},
		"colocate twice":                       {"n05 6", hollow.Task(500), []esl.Policy{place.Colocate{}, with}},
		"pack, preferring":                     {"n05 6", hollow.Task(500), []esl.Policy{prefer, place.Pack{}}},
		"objective, preferring":                {"n05 6", hollow.Task(500), []esl.Policy{place.Objective{By: place.Load}, prefer}},
		"elastic-balance, preferring":          {"n05 6", hollow.Task(500), []esl.Policy{place.ElasticBalance{}, prefer}},
		"spread, preferring":                   {"n05 6", hollow.Task(500), []esl.Policy{place.Spread{Over: esl.Rack}, prefer}},
		"spread, near data":                    {"n05 6", hollow.Task(500), []esl.Policy{place.Spread{}, near}},
		"gang in a rack, balanced":             {"n00 3, n01 3 | n02 3, n03 3 | n04 3, n05 3", hollow.Task(500), []esl.Policy{gang.Gang{In: esl.Rack}, place.Balance{}}},
		"gang in a rack, spread":               {"n00 3, n01 3 | n02 3, n03 3 | n04 3, n05 3", hollow.Task(500), []esl.Policy{place.Spread{}, gang.Gang{In: esl.Rack}}},
		"gang in a rack, with others":          {"n05 6", hollow.Task(500), []esl.Policy{with, gang.Gang{In: esl.Rack}}},
		"gang of pairs, balanced":              {"n00 2, n01 2, n02 2 | n00 2, n01 2, n03 2 | n02 2, n03 2, n04 2 | n01 2, n02 2, n03 2", hollow.Task(500), []esl.Policy{gang.Gang{PerNode: 2}, place.Balance{}}},
		"gang on a node, objective":            {"n00 6", hollow.Task(500), []esl.Policy{gang.Gang{}, place.Colocate{}, place.Objective{By: place.Load}}},
	} {
		t.Run(name, func(t *testing.T) {
			six(t, func(s *esltest.Site) {
				s.Await(esl.Node, c.want, s.Run("j", esl.Copies(6, c.each), c.policies...))
			})
		})
	}
}

// TestGangAmongChosenNodes runs gangs with policies that choose their nodes: with more members than
// an objective assigns ahead, in one of several racks, and in pairs with one more free core on each
// node than its pairs take.
func TestGangAmongChosenNodes(t *testing.T) {
	for name, c := range map[string]struct {
		n        int
		want     string
		policies []esl.Policy
	}{
		"more than are ahead": {30, "", []esl.Policy{gang.Gang{}, place.Objective{By: place.Load, Ahead: 8}}},
		"elastic core":        {30, "", []esl.Policy{room.Elastic{Min: 28}, place.Objective{By: place.Load, Ahead: 8}}},
		"in one rack":         {8, "r0 8 | r1 8", []esl.Policy{gang.Gang{In: esl.Rack}, place.Objective{By: place.Load}}},
		"pairs over racks":    {16, "r0 8, r1 8", []esl.Policy{gang.Gang{PerNode: 2}, place.Spread{Over: esl.Rack, MaxSkew: 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			esltest.OnSite(t, hollow.Racks(hollow.Nodes(6, 5), 3), func(s *esltest.Site) {
				job := s.Run("j", esl.Copies(c.n, hollow.Task(1000)), c.policies...)
				if s.Pass(30 * time.Second); len(s.Running(job)) != c.n {
					t.Errorf("%d of %d run: %s", len(s.Running(job)), c.n, s.Why(job.Tasks[c.n-1]))
				}
				if c.want != "" {
					s.Await(esl.Rack, c.want, job)
				}
			})
		})
	}
}

// TestBalanceChoosesAnew gives up a choice that cannot hold the tasks while none of them is there:
// when the node is full, or the data elsewhere. They are never on more nodes.
func TestBalanceChoosesAnew(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(3, 4), func(s *esltest.Site) {
		full := esl.Copies(4, esltest.TaskOn("n00", 900))
		filled := s.Run("full", append(append(full, esl.Copies(5, esltest.TaskOn("n01", 500))...), esl.Copies(6, esltest.TaskOn("n02", 100))...))
		s.Await(esl.Node, "n00 4, n01 5, n02 6", filled)
		s.Await(esl.Node, "n02 3", s.Run("few", esl.Copies(3, hollow.Task(1000)), place.Balance{Nodes: 1}))
		s.Stop(filled.Tasks...)

		job := s.Run("near", esl.Copies(4, hollow.Task(100)), place.Balance{Nodes: 1}, place.Near{To: "late"})
		s.Says(job.Tasks[0], "near: it is to be near late, which is nowhere yet")
		s.Must(place.Replicate(s.Context(), s.Jobs.Client, "late", "n02"))
		s.Await(esl.Node, "n02 4", job)
		s.Must(s.C.Kill(s.Context(), "n02"))
		s.Must(place.Replicate(s.Context(), s.Jobs.Client, "late", "n01"))
		s.Await(esl.Node, "n01 4", job)
	})
}

// TestWaysOpenLater follows the alternatives that are allowed at the time, even without another
// event.
func TestWaysOpenLater(t *testing.T) {
	later := place.Prefer{Of: []place.Choice{{Node: "n01"}, {Node: "n03", After: manifest.Duration(5 * time.Second)}}}
	for _, p := range []esl.Policy{place.Colocate{}, place.Balance{Nodes: 1}, place.Pack{}, place.Objective{By: place.Load}, place.Spread{Over: esl.Rack, MaxSkew: 3}, place.Apart{In: esl.Rack, PerNode: 4}, place.ElasticBalance{}} {
		t.Run(p.Kind(), func(t *testing.T) {
			esltest.OnSite(t, hollow.Racks(hollow.Nodes(4, 4), 2), func(s *esltest.Site) {
				full := s.Run("full", esl.Copies(4, esltest.TaskOn("n01", 1000)))
				s.Await(esl.Node, "n01 4", full)
				began := time.Now()
				s.Await(esl.Node, "n03 3", s.Run("j", esl.Copies(3, hollow.Task(1000)), p, later))
				if took := time.Since(began); took < 5*time.Second || took > 8*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}
