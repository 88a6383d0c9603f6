package room_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/types"
)

// TestMigrateManyDoNotStart: more tasks that do not start at their destination than one plan evicts
// all return a moment later.
func TestMigrateManyDoNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(3, 60), Behave: hollow.BrokenOn("n02")})
		big := fillNode(t, g.Client, "n02", 60)
		others := []string{fillNode(t, g.Client, "n00", 35), fillNode(t, g.Client, "n01", 35)}
		ids := esltest.Submitted(t, g.Client, esl.Copies(50, hollow.Task(1000, "stop", "1s")), room.Migrate{}).Tasks
		esltest.Statuses(t, g.Client, controlplane.UntilRunning, ids...)
		stopped(t, g.Client, big)
		evicted(t, g.Cluster, ids)
		esltest.Pass(20 * time.Second)
		if on := where(t, g.Cluster, ids); on != strings.TrimSpace(strings.Repeat("n00 ", 25)+strings.Repeat("n01 ", 25)) {
			t.Errorf("it is on %q", on)
		}
		stopped(t, g.Client, slices.Concat(ids, others)...)
		esltest.NothingLeft(t, g.Cluster)
	})
}

// TestMigrateManyNodes moves as many tasks as fit onto one node, whatever the store takes at once.
// All of their former places are kept meanwhile: if the node is lost, they return there.
func TestMigrateManyNodes(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const many = 60
				nodes := hollow.Nodes(many+1, 1)
				last := nodes[many].Name
				nodes[many].Capacity["cpu"] = 100000
				g := esltest.StartGangs(t, hollow.Config{Nodes: nodes, Store: memstore.New(memstore.WithLimits(etcdstore.StockLimits()))})
				big := fillNode(t, g.Client, last, 100)
				l := esltest.Submitted(t, g.Client, esl.Copies(many, hollow.Task(1000, "stop", "3s")), room.Migrate{})
				esltest.Statuses(t, g.Client, controlplane.UntilRunning, l.Tasks...)
				before := where(t, g.Cluster, l.Tasks)
				stopped(t, g.Client, big)
				esltest.Pass(2 * time.Second)
				if g.Snapshot().Reservations[esltest.IDOf(l.Job+".migrate.c")] == nil {
					t.Error("what they leave is not kept")
				}
				want := strings.TrimSpace(strings.Repeat(last+" ", many))
				if lost {
					esltest.Submitted(t, g.Client, esl.Copies(many, hollow.Task(500, "run", "1h"))) // waits for what they leave
					if err := g.Kill(t.Context(), last); err != nil {
						t.Fatal(err)
					}
					want = before
				}
				esltest.Pass(30 * time.Second)
				if on := where(t, g.Cluster, l.Tasks); on != want {
					t.Errorf("it is on %q", on)
				}
			})
		})
	}
}

// TestMigrateLeavesAFullNode does not evict tasks on a node that stays in use, and has no capacity
// for more of them.
func TestMigrateLeavesAFullNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 3)
		others := []string{fillNode(t, jobs, "n00", 1), fillNode(t, jobs, "n01", 3), fillNode(t, jobs, "n02", 3)}
		ids := esltest.Submitted(t, jobs, esl.Copies(5, hollow.Task(1000, "stop", "1s")), room.Migrate{}).Tasks
		esltest.Statuses(t, jobs, controlplane.UntilRunning, ids...)
		stopped(t, jobs, others[1])
		others[1] = fillNode(t, jobs, "n01", 2)
		esltest.Pass(2 * time.Minute)
		if on := where(t, c, ids); !strings.HasPrefix(on, "n00 n00 n00 ") {
			t.Errorf("it is on %q", on)
		}
		stopped(t, jobs, slices.Concat(ids, others)...)
		esltest.NothingLeft(t, c)
	})
}

// TestMigrateOfFormer: tasks of an older version have no alternative to return, and begin where
// they fit as soon as their destination is lost.
func TestMigrateOfFormer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs, ids, others := spreadOut(t, room.Migrate{}, "stop", "3s")
		v, err := c.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			task := *v.Task(esltest.IDOf(id)).Info.V.Full()
			task.Alternatives = slices.DeleteFunc(slices.Clone(task.Alternatives), func(way types.Alternative) bool {
				return slices.ContainsFunc(way.Requests, func(x types.Request) bool { return strings.HasSuffix(x.Name, ".migrate.back") })
			})
			if len(task.Alternatives) != 3 {
				t.Fatalf("it has %d ways", len(task.Alternatives))
			}
			if err := esltest.Put(c.Store, controlplane.TaskKey("d", id), &task); err != nil {
				t.Fatal(err)
			}
		}
		stopped(t, jobs, others["n02"])
		evicted(t, c, ids)
		esltest.Pass(time.Second)
		if err := c.Kill(t.Context(), "n02"); err != nil {
			t.Fatal(err)
		}
		esltest.Pass(30 * time.Second)
		if on := where(t, c, ids); on != "  n00 n01" {
			t.Errorf("it is on %q", on)
		}
	})
}
