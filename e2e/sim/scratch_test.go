package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/audit/audittest"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

var drop func(c controlplane.Compare) bool

func TestScratch(t *testing.T) {
	for seed := range uint64(500) {
		if msg := run(t, seed); msg != "" {
			t.Error(msg)
			return
		}
	}
	for k, n := range stats {
		t.Log(k, n)
	}
}

var stats = map[string]int{}

func TestDrop(t *testing.T) {
	for _, kind := range []string{"allocated/n", "allocated/*", "nodes/", "cordons/", "alive/", "tasks/", "status/", "resources/", "grants/", "reservations/", "devices/", "bindings/", "reports/", "provided/", "leaders/", "namespaces/"} {
		drop = func(c controlplane.Compare) bool { return strings.HasPrefix(c.Key, controlplane.Root+kind) }
		msg := ""
		for seed := uint64(0); seed < 300 && msg == ""; seed++ {
			msg = run(t, seed)
		}
		if len(msg) > 200 { msg = msg[:200] }
		t.Logf("%s: %q", kind, msg)
	}
}

func run(t *testing.T, seed uint64) string {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(seed, 3))
	s := memstore.New(memstore.WithoutExpiry())
	cores := []*scheduler.Core{scheduler.New(scheduler.Config{}), scheduler.New(scheduler.Config{})}
	seen := make([]int64, len(cores))
	chk := audit.NewChecker()
	var audited int64
	now := time.Unix(1000, 0)
	put := func(f func(c *controlplane.Change)) {
		c := controlplane.NewChange(rng.Uint64() | 1)
		f(c)
		if r, err := s.Commit(ctx, c.Txn()); err != nil {
			t.Fatal(r, err)
		}
	}
	q := func(m map[string]types.Quantity) types.Requests { return types.NewRequests(m) }
	for i := range 4 {
		n := fmt.Sprint("n", i)
		put(func(c *controlplane.Change) {
			c.Put(controlplane.NodeKey(n), &types.Node{Capacity: q(map[string]types.Quantity{"cpu": 4000, "gpu": 2000})})
			c.Put(controlplane.AliveKey(n), &types.Alive{})
			c.Put(controlplane.DevicesKey(n), &types.Devices{Devices: []types.Device{{ID: "g0", Resource: "gpu"}, {ID: "g1", Resource: "gpu"}}})
		})
	}
	put(func(c *controlplane.Change) {
		c.Put(controlplane.ResourceKey("d", "lock", "*"), &types.Resource{Capacity: 2000})
		c.Put(controlplane.ResourceKey("d", "slot", "+"), &types.Resource{Capacity: 3000})
	})
	kinds := []map[string]types.Quantity{{"cpu": 1000}, {"cpu": 500, "lock": 1000}, {"slot": 1000}, {"gpu": 500}, {"gpu": 1000}, {"sig": 1000}, {"cpu@g": 1000}, {"gpu@g": 1000}}
	nt := 0
	history := func() string { return audittest.Format(s.Events(1)) }
	for step := range 600 {
		now = now.Add(time.Second)
		v := cores[0].View()
		switch rng.IntN(12) {
		case 0, 1, 2:
			id := fmt.Sprint("t", nt)
			nt++
			task := &types.Task{Requests: q(kinds[rng.IntN(len(kinds))]), Submitted: now.UnixNano()}
			if rng.IntN(4) == 0 {
				task.Provides = []types.Provide{{Name: "sig", Amount: 1000, When: []types.When{"bound", "running", "succeeded"}[rng.IntN(3)]}}
			}
			if rng.IntN(6) == 0 {
				task.MaxRun = 10 * time.Second
			}
			put(func(c *controlplane.Change) { c.Put(controlplane.TaskKey("d", id), task) })
		case 3, 4, 5, 6, 7:
			for name, n := range v.Nodes {
				for a, b := range n.Bindings {
					if b.Info.V == nil || rng.IntN(2) == 0 {
						continue
					}
					key := controlplane.ReportKey(name, "d", a.Task.ID, a.Number)
					r := &types.Report{Phase: types.ReportRunning, Binding: b.Info.Create}
					if b.Report.V != nil {
						if b.Report.V.Phase == types.ReportExited {
							continue
						}
						r.Phase, r.ExitCode, r.Stopped = types.ReportExited, rng.IntN(2), b.Info.V.Stop != nil
					}
					put(func(c *controlplane.Change) {
						c.IfCreated(controlplane.BindingKey(name, "d", a.Task.ID, a.Number), b.Info.Create)
						c.IfUnchanged(key, b.Report.Mod)
						c.Put(key, r)
					})
				}
			}
		case 8:
			n := fmt.Sprint("n", rng.IntN(4))
			if v.Nodes[n] == nil {
				continue
			}
			alive := v.Nodes[n].Alive.V != nil
			put(func(c *controlplane.Change) {
				if alive {
					c.Delete(controlplane.AliveKey(n))
				} else {
					c.Put(controlplane.AliveKey(n), &types.Alive{})
				}
			})
		case 9:
			if nt > 0 {
				id := fmt.Sprint("t", rng.IntN(nt))
				page, _ := s.List(ctx, controlplane.ListOptions{Key: controlplane.TaskKey("d", id)})
				var task types.Task
				if len(page.KVs) == 1 && types.Decode(page.KVs[0].Value, &task) == nil {
					if rng.IntN(2) == 0 {
						task.Stop = &types.Stop{Reason: "x"}
					} else {
						task.Evict = 1
					}
					put(func(c *controlplane.Change) { c.Put(controlplane.TaskKey("d", id), &task) })
				}
			}
		case 10:
			page, _ := s.List(ctx, controlplane.ListOptions{Key: controlplane.ReservationKey("d", "g")})
			put(func(c *controlplane.Change) {
				if len(page.KVs) == 1 {
					c.Delete(controlplane.ReservationKey("d", "g"))
				} else {
					c.Put(controlplane.ReservationKey("d", "g"), &types.Reservation{Accumulate: rng.IntN(2) == 0, Submitted: now.UnixNano(), Bundles: []types.Bundle{
						{Requests: q(map[string]types.Quantity{"cpu": 3000, "gpu": 1000, "lock": 500})}, {Requests: q(map[string]types.Quantity{"cpu": 3000, "gpu": 1000})}}})
				}
			})
		case 11:
			n := fmt.Sprint("n", rng.IntN(4))
			put(func(c *controlplane.Change) {
				switch rng.IntN(4) {
				case 0:
					c.Put(controlplane.CordonKey(n), &types.Cordon{})
				case 1:
					c.Delete(controlplane.CordonKey(n))
				case 2:
					c.Put(controlplane.ResourceKey("d", "slot", "+"), &types.Resource{Capacity: types.Quantity(rng.IntN(4)) * 1000})
				case 3:
					c.Put(controlplane.NodeKey(n), &types.Node{Capacity: q(map[string]types.Quantity{"cpu": types.Quantity(1+rng.IntN(6)) * 1000, "gpu": 2000})})
				}
			})
		}
		for i, core := range cores {
			if rng.IntN(3) == 0 {
				continue
			}
			for _, b := range s.Events(seen[i] + 1) {
				seen[i] = b.Revision
				if err := core.Apply(b, now); err != nil {
					t.Fatal(err)
				}
			}
			for _, d := range core.Next(now) {
				txn := d.Change.Txn()
				if drop != nil {
					txn.Compares = slices.DeleteFunc(slices.Clone(txn.Compares), drop)
				}
				res, err := s.Commit(ctx, txn)
				if err == nil && len(res.Read) > 0 {
					stats["conflict"]++
				}
				for _, op := range txn.Ops {
					k, _ := controlplane.Parse(op.Key)
					m := audit.NewMessage(k)
					if res.Committed && !op.Delete && types.Decode(op.Value, m) == nil {
						switch x := m.(type) {
						case *types.Status:
							stats[string(x.Phase)]++
						case *types.Grant:
							stats[string(x.Phase)]++
						}
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := core.Done(d, res, nil, now); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, b := range s.Events(audited + 1) {
			audited = b.Revision
			if found := chk.Apply(b); len(found) > 0 {
				_ = history
				return fmt.Sprintf("seed %d step %d: %v", seed, step, found) + audittest.Format([]controlplane.Batch{b})
			}
		}
	}
	if found := chk.Full(); len(found) > 0 {
		return fmt.Sprintf("seed %d at the end: %v", seed, found)
	}
	return ""
}
