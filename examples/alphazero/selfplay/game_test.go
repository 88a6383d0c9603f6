package selfplay_test

import (
	"maps"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/escher-sched/escher/api/escher"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/examples/alphazero/selfplay"
	"github.com/escher-sched/escher/types"
)

// TestGame places a game on a cluster in memory, by the policy and on named nodes: two predictors
// are on each of three nodes, with all of their generators, though one of the nodes is half full of
// other tasks.
func TestGame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := hollow.Nodes(3, 16)
		for i := range nodes {
			nodes[i].Capacity[string(types.GPU)] = 4 * esl.One
		}
		c, err := hollow.Start(t.Context(), hollow.Config{Nodes: nodes})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		jobs, err := c.Client("d")
		if err != nil {
			t.Fatal(err)
		}
		other, err := jobs.Submit(t.Context(), controlplane.Job{Name: "other", Tasks: []controlplane.Submission{hollow.Task(8000)}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := jobs.Wait(t.Context(), controlplane.UntilBound, other.Tasks...); err != nil {
			t.Fatal(err)
		}
		game := selfplay.Game{
			Predictors: 6, Each: 3,
			Predictor: func(int) escher.Task {
				t := manifest.FromSubmission(hollow.Task(1000))
				t.Requests = t.Requests.Plus(escher.MustRequests(map[string]string{"gpu": "1"}))
				return t
			},
			Generator: func(int, int) escher.Task { return manifest.FromSubmission(hollow.Task(1000)) },
		}
		want := selfplay.Layout{{Predictors: 2, Together: 6}: 3}
		for name, submit := range map[string]func() (selfplay.Placed, error){
			"policy": func() (selfplay.Placed, error) { return game.Submit(t.Context(), escher.Over(jobs)) },
			"hard-coded": func() (selfplay.Placed, error) {
				return game.SubmitTo(t.Context(), escher.Over(jobs), func(i int) string { return nodes[i%3].Name })
			},
		} {
			placed, err := submit()
			if err != nil {
				t.Fatal(err)
			}
			statuses, err := jobs.Wait(t.Context(), controlplane.UntilBound, append(placed.Predictors, placed.Generators...)...)
			if err != nil {
				t.Fatal(err)
			}
			on := make(map[string]string)
			for id, s := range statuses {
				on[id] = s.Node
				if err := jobs.Stop(t.Context(), id, controlplane.StopOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if got := placed.LayoutOf(on); !maps.Equal(got, want) || got.Together() != 1 {
				t.Errorf("%s: the layout is %v, want %v", name, got, want)
			}
			if _, err := jobs.Wait(t.Context(), controlplane.UntilEnded, append(placed.Predictors, placed.Generators...)...); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestLayout counts generators with their predictor.
func TestLayout(t *testing.T) {
	p := selfplay.Placed{Predictors: []string{"p0", "p1"}, Generators: []string{"g00", "g01", "g10", "g11"}}
	got := p.LayoutOf(map[string]string{"p0": "a", "p1": "b", "g00": "a", "g01": "b", "g10": "b", "g11": "c"})
	want := selfplay.Layout{{Predictors: 1, Together: 1}: 1, {Predictors: 1, Together: 1, Apart: 1}: 1, {Apart: 1}: 1}
	if !maps.Equal(got, want) || got.Together() != 0.5 {
		t.Errorf("got %v, of which %g is together, want %v", got, got.Together(), want)
	}
}

// TestLines counts the lines that are marked as policy.
func TestLines(t *testing.T) {
	text, err := os.ReadFile("game.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "// Policy\n"); n != selfplay.Lines || n > 5 {
		t.Errorf("Lines is %d, and %d are marked, of which at most 5 are allowed: set it, or shorten them", selfplay.Lines, n)
	}
}
