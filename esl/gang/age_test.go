package gang_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/collect"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/types"
)

// on makes a task run on a node.
func on(node string, s controlplane.Submission) controlplane.Submission {
	s.Task.Requests = s.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"node/" + node: 1}))
	return s
}

// TestGangCollectsWhenAged: a gang holds nothing for a time. Then it accumulates free
// capacity, one gang at a time, and small tasks do not starve it. The test counts idle holdings.
func TestGangCollectsWhenAged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const after = 30 * time.Second
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(2, 4), Collect: collect.Config{After: after}})
		// An endless supply of small tasks, more than fit: those that run came before the gangs,
		// and all others after them.
		tasks := make([]controlplane.Submission, 400)
		for i := range tasks {
			tasks[i] = hollow.Task(1000, "run", fmt.Sprint(5+i%5, "s"))
		}
		submit := func(tasks []controlplane.Submission) controlplane.Launched {
			small, err := g.Submit(t.Context(), controlplane.Job{Tasks: tasks})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			return small
		}
		before := submit(tasks[:8])
		first := g.SubmitTasks(2, hollow.Task(4000, "run", "5s"), gang.Gang{})
		began := time.Now()
		time.Sleep(time.Second)
		second := g.SubmitTasks(2, hollow.Task(4000, "run", "5s"), gang.Gang{})
		time.Sleep(time.Second)
		small := submit(tasks[8:])
		collecting := func(v *cluster.View) (n int) {
			for _, r := range v.Reservations {
				if r.Grant.V != nil && r.Grant.V.Phase == types.Collecting {
					n++
				}
			}
			return n
		}
		g.AwaitView(func(v *cluster.View) bool { return collecting(v) > 0 })
		if waited := time.Since(began); waited < after || waited > after+10*time.Second {
			t.Errorf("it began to collect after %s, want %s", waited, after)
		}
		if got := g.Why(first.Tasks[0]); !strings.HasSuffix(got, "it waits until all do, and has collected what becomes free for 0s") {
			t.Errorf("why: %q", got)
		}
		held := time.Now()
		most := 0
		g.AwaitView(func(v *cluster.View) bool {
			most = max(most, collecting(v))
			return len(hollow.Running(v, "d")) == 2 && hollow.Running(v, "d")[first.Tasks[0]] != ""
		})
		idle, err := g.Metric("escher_scheduler_idle_held_seconds_total", "cpu")
		if whole := 8 * time.Since(held).Seconds(); err != nil || idle <= 0 || idle > whole {
			t.Errorf("%.1f core-seconds were held idle, of %.1f; %v", idle, whole, err)
		}
		if waited := time.Since(began); waited > after+20*time.Second {
			t.Errorf("the first gang waited for %s", waited)
		}
		for id, s := range g.Ended(second) {
			if s.Phase != types.Succeeded {
				t.Errorf("%s: %s", id, s.Phase)
			}
		}
		if most != 1 {
			t.Errorf("%d gangs collected at a time", most)
		}
		if waited := time.Since(began); waited > after+40*time.Second {
			t.Errorf("the second gang waited for %s", waited)
		}
		if done := len(g.Ended(before)) + len(g.Ended(small)); done != 400 {
			t.Errorf("%d small tasks ended", done)
		}
		if err := g.Audit(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestGangIsNotDelayedByBackfill lets a task that ends before the gang could be complete use what
// the gang has accumulated; the gang starts no later for that.
func TestGangIsNotDelayedByBackfill(t *testing.T) {
	start := func(t *testing.T, backfill bool) time.Duration {
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(2, 4), Collect: collect.Config{After: 30 * time.Second}})
		long, short := hollow.Task(4000, "run", "100s"), hollow.Task(4000, "run", "10s")
		long.Task.MaxRun, short.Task.MaxRun = 101*time.Second, 11*time.Second
		g.Running(g.SubmitTasks(1, on("n00", long)))
		g.Running(g.SubmitTasks(1, on("n01", short)))
		began := time.Now()
		job := g.SubmitTasks(2, hollow.Task(4000, "run", "5s"), gang.Gang{})
		time.Sleep(40 * time.Second) // it has n01 now, and waits for n00
		if backfill {
			small, late := hollow.Task(4000, "run", "20s"), hollow.Task(4000, "run", "20s")
			small.Task.MaxRun, late.Task.MaxRun = 30*time.Second, 3*time.Minute
			in, out := g.SubmitTasks(1, small), g.SubmitTasks(1, late)
			if nodes := g.Running(in); nodes[0] != "n01" || time.Since(began) > 45*time.Second {
				t.Errorf("the small task is on %s after %s", nodes[0], time.Since(began))
			}
			if s := g.Snapshot().Task(cluster.ID{Namespace: "d", ID: out.Tasks[0]}).Status.V; s != nil {
				t.Errorf("one that could run for longer is %s", s.Phase)
			}
		}
		g.Running(job)
		return time.Since(began).Round(100 * time.Millisecond)
	}
	var without, with time.Duration
	synctest.Test(t, func(t *testing.T) { without = start(t, false) })
	synctest.Test(t, func(t *testing.T) { with = start(t, true) })
	if with > without {
		t.Errorf("it started after %s, and after %s without backfill", with, without)
	}
}

// TestGangDrawsOnPoolsOnce draws once, as a whole, on a pool of another policy, and returns it.
func TestGangDrawsOnPoolsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(4, 4)})
		if _, err := g.SetResource(t.Context(), "slots", 4*esl.One, controlplane.InCluster(), controlplane.SetOptions{}); err != nil {
			t.Fatal(err)
		}
		task := hollow.Task(1000)
		task.Task.Requests = task.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"slots": esl.One}))
		job := g.SubmitTasks(3, task, gang.Gang{})
		g.Running(job)
		free := func() types.Quantity { return g.Snapshot().Pool(types.Resolve("d", "slots")).Free() }
		if got := free(); got != esl.One {
			t.Errorf("%d of the pool is free, want one", got)
		}
		// There is one left, too little for a gang of two.
		waits := g.SubmitTasks(2, task, gang.Gang{})
		time.Sleep(5 * time.Second)
		if got := free(); got != esl.One {
			t.Errorf("%d of the pool is free, want one", got)
		}
		if got := g.Why(waits.Tasks[0]); got != "gang train: 1 of 2 members would fit; it waits until all do" {
			t.Errorf("why: %q", got)
		}
		for _, id := range job.Tasks {
			if err := g.Stop(t.Context(), id, controlplane.StopOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		g.Running(waits)
		if got := free(); got != 2*esl.One {
			t.Errorf("%d of the pool is free, want two", got)
		}
		if err := g.Audit(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestGangDrawsOnQuotasOnce draws once on a quota of the namespace, and has once what the namespace
// requests for each task: with the bundle.
func TestGangDrawsOnQuotasOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(4, 4)})
		admin, err := controlplane.New(g.Client.Store(), "admin")
		if err != nil {
			t.Fatal(err)
		}
		for name, n := range map[string]types.Quantity{"cores": 4, "tasks": 4} {
			if _, err := admin.SetResource(t.Context(), name, n*esl.One, controlplane.InCluster(), controlplane.SetOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		put := controlplane.NewChange(controlplane.NewBatch())
		put.Put(controlplane.NamespaceKey("d"), &types.Namespace{
			Requests: types.Requests{{Name: "admin:tasks", Amount: esl.One}},
			Quotas:   []types.Quota{{Resource: types.CPU, Pool: "admin:cores"}},
		})
		if _, err := controlplane.Commit(t.Context(), g.Client.Store(), put.Txn()); err != nil {
			t.Fatal(err)
		}
		job := g.SubmitTasks(4, hollow.Task(1000), gang.Gang{})
		g.Running(job)
		for _, pool := range []types.ResourceID{"admin:cores", "admin:tasks"} {
			if free := g.Snapshot().Pool(pool).Free(); free != 0 {
				t.Errorf("%d of %s is free", free, pool)
			}
		}
	})
}
