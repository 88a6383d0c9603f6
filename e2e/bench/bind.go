package bench

import (
	"context"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

// runBind measures how fast the scheduler binds, next to the floor. Unless a transaction size is
// given, it measures both again with the larger transactions of Escher's own etcd, and a scheduler that
// reaches that through a gateway.
func runBind(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	full := rig.Target{Figure: "utilisation", Must: 0.8, Unit: " full"}
	stock, own := new(txnShape), new(txnShape)
	arms := []rig.Arm{binding{name: "bind", shape: stock}.arm(), floorArm("floor", 0, stock)}
	if cfg.Ops == rig.StockOps {
		arms = append(arms, binding{name: "bind-own", ops: rig.OwnOps, shape: own}.arm(), binding{name: "bind-gateway", ops: rig.OwnOps, gateway: true}.arm(), floorArm("floor-own", rig.OwnOps, own))
	}
	s, err := rig.Interleave(ctx, cfg, arms...)
	if err != nil {
		return nil, err
	}
	rows := []rig.Row{*bindRow(cfg, s, "bind", "floor").Require(cfg.Must,
		rig.Target{Must: 15_000, Aim: 30_000, Unit: "/s"}, rig.Target{Figure: rig.Ratio, Must: 0.6, Aim: 0.85}, full)}
	if cfg.Ops == rig.StockOps {
		cfg.Ops = rig.OwnOps
		rows = append(rows, *bindRow(cfg, s, "bind-own", "floor-own").Require(0, rig.Target{Must: 20_000, Aim: 30_000, Unit: "/s"}, full),
			*bindRow(cfg, s, "bind-gateway", "bind-own").Require(0, rig.Target{Figure: rig.Ratio, Must: 0.8, Aim: 0.9}, full))
	}
	return rows, nil
}

// bindRow is the row of an arm that binds, relative to another one.
func bindRow(cfg rig.Config, s rig.Samples, name, base string) *rig.Row {
	r := rig.NewRow(cfg, name, "tasks/s", s.Of(name, rig.Rate)).Over(base, s.Of(name, rig.Rate), s.Of(base, rig.Rate))
	r.P50, r.P99 = rig.Median(s.Of(name, rig.CounterP50)), rig.Median(s.Of(name, rig.CounterP99))
	r.AddDetails(s, name, rig.Rate, rig.CounterP50, rig.CounterP99)
	r.AddDetail("raw_puts", s.Of(base, "raw_puts")).AddDetail("put_p50_ms", s.Of(base, "put_p50_ms"))
	return r.AddViolations(s.Violations(name))
}

// putJob makes the tasks of a job visible.
func putJob(ctx context.Context, c *rig.Cluster, ns, id string, n int) error {
	_, err := c.Put(ctx, controlplane.JobKey(ns, id), &types.Job{Name: id, Tasks: n, Submitted: time.Now().UnixNano()})
	return err
}
