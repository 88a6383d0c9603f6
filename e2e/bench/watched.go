package bench

import (
	"context"

	"github.com/escher-sched/escher/e2e/bench/connected"
	"github.com/escher-sched/escher/e2e/bench/rig"
)

// runAgents measures binding while an agent for each node watches its bindings and renews its
// session; the agents start nothing. They reach etcd, or a gateway by certificates of their own.
func runAgents(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	shape := new(txnShape)
	s, err := rig.Interleave(ctx, cfg, binding{name: "bind", shape: shape}.arm(), binding{name: "agents", draw: newAbsent, prepare: rig.Attend}.arm(),
		binding{name: "agents-server", draw: newAbsent, prepare: connected.Attend}.arm(), floorArm("floor", 0, shape))
	if err != nil {
		return nil, err
	}
	row := bindRow(cfg, s, "agents", "bind").AddDetail("of_floor", rig.Ratios(s.Of("agents", rig.Rate), s.Of("floor", rig.Rate)))
	through := bindRow(cfg, s, "agents-server", "agents")
	return []rig.Row{*row.Require(cfg.Must, rig.Target{Figure: rig.Ratio, Must: 0.6, Aim: 0.8}), *through.Require(0, rig.Target{Figure: rig.Ratio, Must: 0.8, Aim: 0.9})}, nil
}

// newAbsent draws a cluster in which no node is alive yet.
func newAbsent(cfg rig.Config) (*rig.Hollow, error) {
	h, err := rig.NewHollow(cfg)
	if err != nil {
		return nil, err
	}
	h.Absent = true
	return h, nil
}
