package selfplay

import (
	"context"
	"fmt"

	"github.com/escher-sched/escher/api/escher"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// Game is predictors, and generators for each of them.
type Game struct {
	Predictors, Each int
	// Predictor returns the task of the i-th predictor, Generator that of its j-th generator.
	Predictor func(i int) escher.Task
	Generator func(i, j int) escher.Task
}

// Placed holds the ids of the tasks of a submitted game: the j-th generator of the i-th predictor
// is at i*Each+j.
type Placed struct{ Predictors, Generators []string }

// Lines is how many lines the policy takes: those marked below. A test counts them.
const Lines = 4

// Submit submits a game with the same number of predictors on each node, and each generator with
// its predictor.
func (g Game) Submit(ctx context.Context, client *escher.Client) (Placed, error) {
	game := escher.NewID("game")
	var predictors, generators []escher.Task
	for i := range g.Predictors {
		p, beside := g.Predictor(i), fmt.Sprintf("%s.%d", game, i)                               // Policy
		p.Provides = []escher.Provide{{Name: beside, Amount: escher.Inf, When: types.WhenBound}} // Policy
		predictors = append(predictors, p)
		for j := range g.Each {
			x := g.Generator(i, j)
			x.Requests = x.Requests.Plus(escher.MustRequests(map[string]string{beside: "1"})) // Policy
			generators = append(generators, x)
		}
	}
	return submit(ctx, client, predictors, generators, place.Balance{}) // Policy
}

// SubmitTo submits a game whose i-th predictor and its generators go to a named node: a hard-coded
// placement. No name means any node.
func (g Game) SubmitTo(ctx context.Context, client *escher.Client, node func(i int) string) (Placed, error) {
	var predictors, generators []escher.Task
	for i := range g.Predictors {
		predictors = append(predictors, to(node(i), g.Predictor(i)))
		for j := range g.Each {
			generators = append(generators, to(node(i), g.Generator(i, j)))
		}
	}
	return submit(ctx, client, predictors, generators)
}

// to makes a task go to a node, if one is named.
func to(node string, t escher.Task) escher.Task {
	if node != "" {
		t.Requests = t.Requests.Plus(escher.MustRequests(map[string]string{"node/" + node: "1"}))
	}
	return t
}

// submit submits both, and policies for the predictors.
func submit(ctx context.Context, client *escher.Client, predictors, generators []escher.Task, policies ...esl.Policy) (Placed, error) {
	first, err := client.Submit(ctx, escher.Job{Name: "predict", Tasks: predictors}, policies...)
	if err != nil {
		return Placed{}, err
	}
	second, err := client.Submit(ctx, escher.Job{Name: "generate", Tasks: generators})
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
