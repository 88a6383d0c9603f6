package gang_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/types"
)

// large runs a gang of more members than a stock etcd takes in one transaction. It is still granted
// as a whole: its tasks are written first, and become visible with it.
func large(t *testing.T, g esltest.Gangs, parts func(n int) bool) {
	t.Helper()
	job := g.SubmitTasks(520, hollow.Task(1000), gang.Gang{})
	if !parts(job.Parts) {
		t.Errorf("it took %d parts", job.Parts)
	}
	if nodes := esltest.Count(g.Running(job)); len(nodes) != 20 {
		t.Errorf("it is on %d nodes", len(nodes))
	}
	v := g.Snapshot()
	if r := v.Reservations[cluster.ID{Namespace: "d", ID: job.Job + ".gang"}]; r.Info.Create != v.Jobs[cluster.ID{Namespace: "d", ID: job.Job}].Create {
		t.Error("the job and what is locked for it are of different revisions")
	}
	// It ends as one, in several transactions.
	if err := g.Stop(t.Context(), job.Tasks[7], controlplane.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	for id, s := range g.Ended(job) {
		if s.Phase != types.Cancelled && s.Phase != types.Failed {
			t.Fatalf("%s %s", id, s.Phase)
		}
	}
}

func TestGangOf520(t *testing.T) {
	for name, limits := range map[string]controlplane.Limits{
		"as served": {Ops: 4096, Bytes: 1536 << 10}, "stock": {Ops: 128, Bytes: 1536 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(20, 26), Store: memstore.New(memstore.WithLimits(limits)), NoAudit: true})
				large(t, g, func(n int) bool { return n == 1 == (limits.Ops == 4096) })
			})
		})
	}
}

// TestGangOf520OnEtcd takes one transaction on a real etcd with Escher's limits.
func TestGangOf520OnEtcd(t *testing.T) {
	store := etcdstore.New(etcdtest.Start(t).Client, etcdstore.ServerLimits())
	g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(20, 26), Store: store, NoAudit: true})
	large(t, g, func(n int) bool { return n == 1 })
}

// TestGangOn512Nodes is a gang on more nodes than a stock etcd takes in one transaction. It is
// granted in several, begins as a whole, and leaves nothing. The race detector watches one on 128
// nodes; make seeds runs all of it.
func TestGangOn512Nodes(t *testing.T) {
	members := 512
	if esltest.Raced {
		members = 128
	}
	for name, share := range map[string]int{"a node each": 1, "four on each": 4} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits := controlplane.Limits{Ops: 128, Bytes: 1536 << 10}
				g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(members/share, share), Store: memstore.New(memstore.WithLimits(limits))})
				whole(t, g, members, members/share)
			})
		})
	}
}

// TestGangOn100NodesOnStockEtcd does so on a real etcd with its default limits.
func TestGangOn100NodesOnStockEtcd(t *testing.T) {
	limits := controlplane.Limits{Ops: 128, Bytes: 1536 << 10}
	store := etcdstore.New(etcdtest.Start(t, etcdtest.WithMaxTxnOps(128)).Client, limits)
	// The sessions of a hundred nodes may be renewed late on a machine that runs other tests.
	whole(t, esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(100, 1), Store: store, TTL: 5 * time.Minute}), 100, 100)
}

// whole runs a gang of so many members on so many nodes, and a second one behind it.
func whole(t *testing.T, g esltest.Gangs, members, nodes int) {
	t.Helper()
	first := g.SubmitTasks(members, hollow.Task(1000), gang.Gang{})
	if on := esltest.Count(g.Running(first)); len(on) != nodes {
		t.Errorf("it is on %d nodes", len(on))
	}
	second := g.SubmitTasks(members, hollow.Task(1000), gang.Gang{})
	if err := g.Stop(t.Context(), first.Tasks[7], controlplane.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	g.Ended(first)
	g.Running(second)
	if err := g.Stop(t.Context(), second.Tasks[7], controlplane.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	g.Ended(second)
	for !settledGrants(g.Snapshot()) {
		time.Sleep(100 * time.Millisecond)
	}
}

// settledGrants reports whether no reservation holds anything, and nothing is in use.
func settledGrants(v *cluster.View) bool {
	for _, r := range v.Reservations {
		if r.Grant.V != nil {
			return false
		}
	}
	for _, n := range v.Nodes {
		if n.Allocated.V != nil && len(n.Allocated.V.Holds) > 0 {
			return false
		}
	}
	return len(v.Leaders) == 0
}

// TestGangIsTooLarge refuses more than one reservation can hold, suggests a remedy, and writes
// nothing.
func TestGangIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := controlplane.Limits{Ops: 128, Bytes: 1536 << 10}
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(40, 30), Store: memstore.New(memstore.WithLimits(limits)), NoAudit: true})
		differing := make([]controlplane.Submission, 70)
		for i := range differing {
			differing[i] = hollow.Task(100 + i)
		}
		for says, tasks := range map[string][]controlplane.Submission{
			"tasks: 5000 are 5000 bundles to be locked at once, with 1 on a node together, and 4096 is the most: have fewer tasks, or of a gang more on each node (perNode)":                                                                 esl.Copies(5000, hollow.Task(10)),
			"tasks: 70 of them ask for 70 different things by requests and devices, each of which is a resource of its own, and of these the store takes 60 at once: have tasks ask for the same, or start etcd with a larger --max-txn-ops": differing,
		} {
			if _, err := g.Submit(t.Context(), controlplane.Job{Name: "train", Tasks: tasks}, gang.Gang{}); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, want %q", err, says)
			}
		}
		if v := g.Snapshot(); len(v.Jobs) != 0 || len(v.Reservations) != 0 {
			t.Error("something was written")
		}
		for range g.Snapshot().Tasks() {
			t.Fatal("a task was written")
		}
	})
}
