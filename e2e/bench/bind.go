package bench

import (
	"context"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// ownOps is how many operations Escher's own etcd allows in a transaction.
const ownOps = 4096

// runBind measures how fast the scheduler binds, next to the floor. Unless a transaction size is
// given, it measures both again with the larger transactions of Escher's own etcd.
func runBind(ctx context.Context, cfg Config) ([]Row, error) {
	full := target{figure: "utilisation", must: 0.8, unit: " full"}
	stock, own := new(txnShape), new(txnShape)
	arms := []arm{binding{name: "bind", shape: stock}.arm(), floorArm("floor", 0, stock)}
	if cfg.Ops == stockOps {
		arms = append(arms, binding{name: "bind-own", ops: ownOps, shape: own}.arm(), floorArm("floor-own", ownOps, own))
	}
	s, err := interleave(ctx, cfg, arms...)
	if err != nil {
		return nil, err
	}
	rows := []Row{*bindRow(cfg, s, "bind", "floor").require(cfg.Must,
		target{must: 15_000, aim: 30_000, unit: "/s"}, target{figure: ratio, must: 0.6, aim: 0.85}, full)}
	if cfg.Ops == stockOps {
		cfg.Ops = ownOps
		rows = append(rows, *bindRow(cfg, s, "bind-own", "floor-own").require(0, target{must: 20_000, aim: 30_000, unit: "/s"}, full))
	}
	return rows, nil
}

// bindRow is the row of an arm that binds, relative to another one.
func bindRow(cfg Config, s samples, name, base string) *Row {
	r := newRow(cfg, name, "tasks/s", s.of(name, rate)).over(base, s.of(name, rate), s.of(base, rate))
	r.P50, r.P99 = median(s.of(name, partP50)), median(s.of(name, partP99))
	r.details(s, name, rate, partP50, partP99)
	r.detail("raw_puts", s.of(base, "raw_puts")).detail("put_p50_ms", s.of(base, "put_p50_ms"))
	return r.found(s.violations(name))
}

// putJob makes the tasks of a job visible.
func (c *cluster) putJob(ctx context.Context, ns, id string, n int) error {
	_, err := c.put(ctx, controlplane.JobKey(ns, id), &types.Job{Name: id, Tasks: n, Submitted: time.Now().UnixNano()})
	return err
}
