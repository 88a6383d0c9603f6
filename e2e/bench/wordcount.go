package bench

import (
	"context"
	"fmt"

	"github.com/escher-sched/escher/controlplane"
	sim "github.com/escher-sched/escher/e2e/hollow"
)

// The experiment of the paper on data locality: WordCount on 10, 50 and 100 nodes, with mappers
// anywhere, on named nodes, and near their data by the library.

// localityScenarios are about tasks near something.
func localityScenarios() []scenario {
	return []scenario{
		{name: "wordcount", about: "WordCount (modelled) on a tenth, half and all of the nodes, tasks is chunks for each: mappers near their data by the library, over mappers whose node is named; --speed for less time",
			full: size{100, 14, 3}, quick: size{20, 14, 1}, run: runWordcount},
		{name: "wordcount-containers", about: "WordCount on real containers (examples/wordcount), tasks is mappers: near their data, over mappers whose node is named; rounds are pairs", containers: true,
			full: size{3, 10, 15}, quick: size{3, 6, 3}, run: runWordcountContainers},
	}
}

// Names of the figures of a run of WordCount.
const (
	wordTook  = "makespan_s"
	wordLocal = "local_percent"
)

// runWordcount runs it on three numbers of nodes, placed in three ways, in turns.
func runWordcount(ctx context.Context, cfg Config) ([]Row, error) {
	if cfg.Speed == 0 {
		cfg.Speed = 2
		if cfg.Quick {
			cfg.Speed = 20
		}
	}
	cfg.progress.say("model: chunks of %g MB, each on %d nodes, are read at %g MB/s from a node's own disk, or over links of %g MB/s that are shared, and counted at %g MB/s, %d at once on a node; reducers, as many as nodes, take %s",
		wordChunk, wordCopies, wordDisk, wordLink, wordMap, wordSlots, wordReduce)
	sizes := []int{max(1, cfg.Nodes/10), max(1, cfg.Nodes/2), cfg.Nodes}
	var arms []arm
	for _, n := range sizes {
		for _, placed := range []string{wordRandom, wordNative, wordESL} {
			arms = append(arms, wordArm(n, placed))
		}
	}
	s, err := interleave(ctx, cfg, arms...)
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, n := range sizes {
		rows = append(rows, wordRow(cfg, s, n))
	}
	return rows, nil
}

// wordRow is the row for a number of nodes.
func wordRow(cfg Config, s samples, n int) Row {
	cfg.Nodes, cfg.Tasks = n, n*cfg.Tasks
	random, native, library := wordArm(n, wordRandom).name, wordArm(n, wordNative).name, wordArm(n, wordESL).name
	took := func(arm string) []float64 { return s.of(arm, wordTook) }
	row := newRow(cfg, fmt.Sprintf("wordcount-%d", n), "s", took(library)).over(wordNative, took(library), took(native)).
		detail("random_s", took(random)).detail("random_ratio", ratios(took(random), took(native))).
		detail(wordLocal, s.of(library, wordLocal)).detail("random_local_percent", s.of(random, wordLocal)).
		detail("lines", []float64{wordLines}).detail("speed", []float64{cfg.Speed}).
		found(s.violations(random, native, library))
	return *row.require(cfg.Must, target{figure: ratio, atMost: true, must: 1.019}, target{figure: wordLocal, must: 100, unit: " % local"})
}

// wordArm runs WordCount on hollow agents on n nodes, with tasks as long as the model says.
func wordArm(n int, placed string) arm {
	return arm{fmt.Sprintf("%d nodes, %s", n, placed), func(ctx context.Context, cfg Config) (figures, error) {
		return onCluster(ctx, cfg, func(ctx context.Context, c *cluster, found figures) error {
			nodes := sim.Nodes(n, wordSlots)
			h, err := c.hollow(ctx, sim.Config{Nodes: nodes, NoAudit: true})
			if err != nil {
				return err
			}
			names := make([]string, n)
			for i := range nodes {
				names[i] = nodes[i].Name
			}
			_, err = c.window(ctx, func(ctx context.Context) error {
				return newWordRun(cfg, h, placeChunks(n*cfg.Tasks, names), n).run(ctx, placed, found)
			})
			if err == nil {
				err = c.gone(ctx, controlplane.Policies)
			}
			return err
		})
	}}
}
