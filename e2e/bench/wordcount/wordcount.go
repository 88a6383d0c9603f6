package wordcount

import (
	"context"
	"fmt"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	sim "github.com/escher-sched/escher/e2e/hollow"
)

// Scenarios returns the scenarios about tasks near something.
func Scenarios() []rig.Scenario {
	return []rig.Scenario{
		{Name: "wordcount", About: "WordCount (modelled) on a tenth, half and all of the nodes, tasks is chunks for each: mappers near their data by the library, over mappers whose node is named; --speed for less time",
			Full: rig.Size{Nodes: 100, Tasks: 14, Rounds: 3}, Quick: rig.Size{Nodes: 20, Tasks: 14, Rounds: 1}, Run: runWordcount},
		{Name: "wordcount-containers", About: "WordCount on real containers (examples/wordcount), tasks is mappers: near their data, over mappers whose node is named; rounds are pairs", Containers: true,
			Full: rig.Size{Nodes: 3, Tasks: 10, Rounds: 15}, Quick: rig.Size{Nodes: 3, Tasks: 6, Rounds: 3}, Run: runContainers},
	}
}

// Names of the figures of a run of WordCount.
const (
	makespan     = "makespan_s"
	localPercent = "local_percent"
)

// runWordcount runs it on three numbers of nodes, placed in three ways, in turns.
func runWordcount(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	if cfg.Speed == 0 {
		cfg.Speed = 2
		if cfg.Quick {
			cfg.Speed = 20
		}
	}
	cfg.Say("model: chunks of %g MB, each on %d nodes, are read at %g MB/s from a node's own disk, or over links of %g MB/s that are shared, and counted at %g MB/s, %d at once on a node; reducers, as many as nodes, take %s",
		chunkSize, chunkCopies, diskSpeed, linkSpeed, countSpeed, slotsOnNode, reduceTime)
	sizes := []int{max(1, cfg.Nodes/10), max(1, cfg.Nodes/2), cfg.Nodes}
	var arms []rig.Arm
	for _, n := range sizes {
		for _, placed := range []string{placedRandom, placedNative, placedESL} {
			arms = append(arms, placedArm(n, placed))
		}
	}
	s, err := rig.Interleave(ctx, cfg, arms...)
	if err != nil {
		return nil, err
	}
	var rows []rig.Row
	for _, n := range sizes {
		rows = append(rows, sizeRow(cfg, s, n))
	}
	return rows, nil
}

// sizeRow is the row for a number of nodes.
func sizeRow(cfg rig.Config, s rig.Samples, n int) rig.Row {
	cfg.Nodes, cfg.Tasks = n, n*cfg.Tasks
	random, native, library := placedArm(n, placedRandom).Name, placedArm(n, placedNative).Name, placedArm(n, placedESL).Name
	took := func(arm string) []float64 { return s.Of(arm, makespan) }
	row := rig.NewRow(cfg, fmt.Sprintf("wordcount-%d", n), "s", took(library)).Over(placedNative, took(library), took(native)).
		AddDetail("random_s", took(random)).AddDetail("random_ratio", rig.Ratios(took(random), took(native))).
		AddDetail(localPercent, s.Of(library, localPercent)).AddDetail("random_local_percent", s.Of(random, localPercent)).
		AddDetail("lines", []float64{policyLines}).AddDetail("speed", []float64{cfg.Speed}).
		AddViolations(s.Violations(random, native, library))
	return *row.Require(cfg.Must, rig.Target{Figure: rig.Ratio, AtMost: true, Must: 1.019}, rig.Target{Figure: localPercent, Must: 100, Unit: " % local"})
}

// placedArm runs WordCount on hollow agents on n nodes, with tasks as long as the model says.
func placedArm(n int, placed string) rig.Arm {
	return rig.Arm{Name: fmt.Sprintf("%d nodes, %s", n, placed), Measure: func(ctx context.Context, cfg rig.Config) (rig.Figures, error) {
		return rig.OnCluster(ctx, cfg, func(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
			nodes := sim.Nodes(n, slotsOnNode)
			h, err := c.StartHollow(ctx, sim.Config{Nodes: nodes, NoAudit: true})
			if err != nil {
				return err
			}
			names := make([]string, n)
			for i := range nodes {
				names[i] = nodes[i].Name
			}
			_, err = c.Window(ctx, func(ctx context.Context) error {
				return newCountRun(cfg, h, placeChunks(n*cfg.Tasks, names), n).run(ctx, placed, found)
			})
			if err == nil {
				err = c.WaitGone(ctx, controlplane.Policies)
			}
			return err
		})
	}}
}
