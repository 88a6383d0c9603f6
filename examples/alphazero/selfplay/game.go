package selfplay

import (
	"context"
	"fmt"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// Game is predictors, and generators for each of them.
type Game struct {
	Predictors, Each int
	// Predictor returns the task of the i-th predictor, Generator that of its j-th generator.
	Predictor func(i int) controlplane.Submission
	Generator func(i, j int) controlplane.Submission
}

// Placed holds the ids of the tasks of a submitted game: the j-th generator of the i-th predictor
// is at i*Each+j.
type Placed struct{ Predictors, Generators []string }

// Lines is how many lines the policy takes: those marked below. A test counts them.
const Lines = 4

// Submit submits a game with the same number of predictors on each node, and each generator with
// its predictor.
func (g Game) Submit(ctx context.Context, jobs *esl.Client) (Placed, error) {
	game := controlplane.NewID("game")
	var predictors, generators []controlplane.Submission
	for i := range g.Predictors {
		p, beside := g.Predictor(i), fmt.Sprintf("%s.%d", game, i)                                  // Policy
		p.Task.Provides = []types.Provide{{Name: beside, Amount: types.Inf, When: types.WhenBound}} // Policy
		predictors = append(predictors, p)
		for j := range g.Each {
			x := g.Generator(i, j)
			x.Task.Requests = x.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{beside: 1})) // Policy
			generators = append(generators, x)
		}
	}
	return submit(ctx, jobs, predictors, generators, place.Balance{}) // Policy
}

// SubmitTo submits a game whose i-th predictor and its generators go to a named node: a hard-coded
// placement. No name means any node.
func (g Game) SubmitTo(ctx context.Context, jobs *esl.Client, node func(i int) string) (Placed, error) {
	var predictors, generators []controlplane.Submission
	for i := range g.Predictors {
		predictors = append(predictors, to(node(i), g.Predictor(i)))
		for j := range g.Each {
			generators = append(generators, to(node(i), g.Generator(i, j)))
		}
	}
	return submit(ctx, jobs, predictors, generators)
}

// to makes a task go to a node, if one is named.
func to(node string, s controlplane.Submission) controlplane.Submission {
	if node != "" {
		s.Task.Requests = s.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"node/" + node: esl.One}))
	}
	return s
}

// submit submits both, and policies for the predictors.
func submit(ctx context.Context, jobs *esl.Client, predictors, generators []controlplane.Submission, policies ...esl.Policy) (Placed, error) {
	first, err := jobs.Submit(ctx, controlplane.Job{Name: "predict", Tasks: predictors}, policies...)
	if err != nil {
		return Placed{}, err
	}
	second, err := jobs.Submit(ctx, controlplane.Job{Name: "generate", Tasks: generators})
	return Placed{Predictors: first.Tasks, Generators: second.Tasks}, err
}

// Layout is a placement without the names of nodes and tasks: how many nodes have which content.
type Layout map[Node]int

// Node is the content of one node: predictors, generators whose predictor is there, and those whose
// predictor is elsewhere.
type Node struct{ Predictors, Together, Apart int }

// LayoutOf is the layout of a game, from the nodes of tasks by id.
func (p Placed) LayoutOf(nodes map[string]string) Layout {
	each := len(p.Generators) / max(1, len(p.Predictors))
	on := make(map[string]Node)
	for _, id := range p.Predictors {
		n := on[nodes[id]]
		n.Predictors++
		on[nodes[id]] = n
	}
	for k, id := range p.Generators {
		n := on[nodes[id]]
		if nodes[id] == nodes[p.Predictors[k/each]] {
			n.Together++
		} else {
			n.Apart++
		}
		on[nodes[id]] = n
	}
	layout := make(Layout)
	for _, n := range on {
		layout[n]++
	}
	return layout
}

// Together is the fraction of generators with their predictor.
func (l Layout) Together() float64 {
	together, all := 0, 0
	for n, count := range l {
		together += n.Together * count
		all += (n.Together + n.Apart) * count
	}
	return float64(together) / float64(max(1, all))
}
