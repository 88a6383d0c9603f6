package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/escher-sched/escher/api/escher"
	"github.com/escher-sched/escher/examples/alphazero/selfplay"
	"github.com/escher-sched/escher/types"
)

// compare plays twice, and checks that the policy places generators with their predictors.
func compare(ctx context.Context, at places) error {
	client, err := escher.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	nodes, err := prepare(ctx, client, at)
	if err != nil {
		return err
	}
	fmt.Printf("%-16s %-36s %-18s %s\n", "placed", "generators beside their predictor", "positions/s each,", "and elsewhere")
	for _, way := range []struct {
		name   string
		submit func(selfplay.Game) (selfplay.Placed, error)
		all    bool
	}{
		{"by the policy", func(g selfplay.Game) (selfplay.Placed, error) { return g.Submit(ctx, client) }, true},
		{"anywhere", func(g selfplay.Game) (selfplay.Placed, error) {
			return g.SubmitTo(ctx, client, func(int) string { return "" })
		}, false},
	} {
		run := escher.NewID("play")
		placed, err := way.submit(at.game(run, nodes))
		if err != nil {
			return err
		}
		results, err := play(ctx, client, at, run, placed)
		if err != nil {
			return err
		}
		together, near, far := summary(results)
		fmt.Printf("%-16s %-36s %-18s %s\n", way.name, fmt.Sprintf("%d of %d", together, len(results)), near, far)
		if way.all && together != len(results) {
			return fmt.Errorf("%d of %d generators were placed beside their predictor", together, len(results))
		}
	}
	fmt.Println("(one machine: who is elsewhere asks over its loopback, and all of them share its processors)")
	return nil
}

// summary returns the number of generators with their predictor, and how many positions per second
// each of these and each of the others plays.
func summary(results []result) (together int, near, far string) {
	rates, counts := make(map[bool]float64), make(map[bool]int)
	for _, r := range results {
		rates[r.Together] += r.Rate
		counts[r.Together]++
	}
	texts := map[bool]string{true: "-", false: "-"}
	for side, n := range counts {
		texts[side] = fmt.Sprintf("%.0f", rates[side]/float64(n))
	}
	return counts[true], texts[true], texts[false]
}

// prepare makes the directories, and returns the number of nodes.
func prepare(ctx context.Context, client *escher.Client, at places) (int, error) {
	state, err := client.State(ctx)
	if err != nil {
		return 0, err
	}
	errs := []error{os.MkdirAll(filepath.Join(at.work, "shared"), 0o755)}
	for _, n := range state.Nodes {
		if _, ok := n.Get(string(types.GPU)); !ok {
			errs = append(errs, fmt.Errorf("node %s has no gpu: escher dev --simulated-gpus 1 gives each a simulated one", n.Name))
		}
		errs = append(errs, os.MkdirAll(filepath.Join(at.work, n.Name), 0o755))
	}
	return len(state.Nodes), errors.Join(errs...)
}

// game has the given number of predictors, named after a run.
func (at places) game(run string, predictors int) selfplay.Game {
	name := func(i int) string { return run + "-" + strconv.Itoa(i) }
	return selfplay.Game{
		Predictors: predictors, Each: each,
		Predictor: func(i int) escher.Task {
			t := at.task("predict", name(i))
			t.Requests = escher.MustRequests(map[string]string{"gpu": "1"})
			t.Spec.Ports = []escher.Port{{Name: "boards"}}
			return t
		},
		Generator: func(i, j int) escher.Task { return at.task("generate", name(i), strconv.Itoa(j)) },
	}
}

// task returns a task of this program.
func (at places) task(command ...string) escher.Task {
	return escher.Task{
		Name: command[0],
		Spec: escher.Spec{
			Image: "escher.local/examples:latest", Command: append([]string{"/bin/alphazero"}, command...),
			Mounts: []escher.Mount{
				{Source: filepath.Join(at.work, "{node}"), Target: at.node},
				{Source: filepath.Join(at.work, "shared"), Target: at.shared},
			},
		},
	}
}

// play waits until all generators have ended, stops the predictors, and returns the results of the
// generators.
func play(ctx context.Context, client *escher.Client, at places, run string, placed selfplay.Placed) ([]result, error) {
	statuses, err := client.Wait(ctx, escher.UntilEnded, placed.Generators...)
	for _, id := range placed.Predictors {
		err = errors.Join(err, client.Stop(context.WithoutCancel(ctx), id, escher.Because("all is played")))
	}
	if err != nil {
		return nil, err
	}
	if _, err := client.Wait(ctx, escher.UntilEnded, placed.Predictors...); err != nil {
		return nil, err
	}
	results := make([]result, len(placed.Generators))
	for k, id := range placed.Generators {
		if s := statuses[id]; s.Phase != types.Succeeded {
			return nil, fmt.Errorf("generator %s %s with exit code %d: %s; see escher logs %s", id, s.Phase, s.ExitCode, s.Reason, id)
		}
		text, err := os.ReadFile(filepath.Join(at.work, "shared", fmt.Sprintf("%s-%d-%d", run, k/each, k%each)))
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &results[k]); err != nil {
			return nil, err
		}
	}
	return results, nil
}
