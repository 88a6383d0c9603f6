package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// byPrefix are units of tasks with the same name up to a dash: size of them, or none.
type byPrefix struct {
	size int
	// some allows as many as fit.
	some bool
}

func (byPrefix) Unit(_ *cluster.View, t *cluster.Task) string {
	name, _, ok := strings.Cut(t.ID.ID, "-")
	if !ok {
		return ""
	}
	return name
}

func (u byPrefix) Place(p *Placing, tasks []*cluster.Task) bool {
	put := 0
	for _, t := range tasks {
		if p.Put(t) {
			put++
		}
	}
	return put > 0 && (u.some || put == u.size)
}

// TestUnits: the tasks of a unit are bound at one revision or not at all, whatever each requests.
// Others are placed next to them, and before them where they fit.
func TestUnits(t *testing.T) {
	cpu := func(q types.Quantity) map[string]types.Quantity { return map[string]types.Quantity{"cpu": q} }
	unit := func(b *bench, name string, asks ...types.Quantity) {
		for i, q := range asks {
			b.task(fmt.Sprintf("%s-%d", name, i), cpu(q))
		}
	}
	for name, c := range map[string]struct {
		units byPrefix
		do    func(b *bench)
		want  map[string]string // by task: bound or pending
	}{
		"all fit":  {byPrefix{size: 3}, func(b *bench) { unit(b, "g", 600, 600, 400) }, map[string]string{"g-0": "bound", "g-1": "bound", "g-2": "bound"}},
		"one more": {byPrefix{size: 3}, func(b *bench) { unit(b, "g", 600, 600, 600) }, map[string]string{"g-0": "pending", "g-1": "pending", "g-2": "pending"}},
		"nothing is held meanwhile": {byPrefix{size: 3}, func(b *bench) { unit(b, "g", 600, 600, 600); b.settle(); b.task("z", cpu(900)) },
			map[string]string{"g-0": "pending", "z": "bound"}},
		"not all there": {byPrefix{size: 2}, func(b *bench) { unit(b, "g", 100) }, map[string]string{"g-0": "pending"}},
		"the last one comes": {byPrefix{size: 2}, func(b *bench) { unit(b, "g", 100); b.settle(); b.task("g-1", cpu(100)) },
			map[string]string{"g-0": "bound", "g-1": "bound"}},
		"there is more": {byPrefix{size: 3}, func(b *bench) { unit(b, "g", 600, 600, 600); b.settle(); b.node("n3", 1000) },
			map[string]string{"g-0": "bound", "g-1": "bound", "g-2": "bound"}},
		"what ran has ended": {byPrefix{size: 2}, func(b *bench) { b.task("a", cpu(900)); b.settle(); unit(b, "g", 600, 600); b.settle(); b.exited("a") },
			map[string]string{"g-0": "bound", "g-1": "bound"}},
		"two of which one fits": {byPrefix{size: 2}, func(b *bench) { unit(b, "g", 600, 600); unit(b, "h", 600, 600) },
			map[string]string{"g-0": "bound", "g-1": "bound", "h-0": "pending", "h-1": "pending"}},
		"as many as fit": {byPrefix{some: true}, func(b *bench) { unit(b, "g", 600, 600, 600) },
			map[string]string{"g-0": "bound", "g-1": "bound", "g-2": "pending"}},
		"one is stopped": {byPrefix{size: 1}, func(b *bench) {
			unit(b, "g", 600, 5000)
			b.settle()
			b.task("g-1", cpu(5000), func(t *types.Task) { t.Stop = &types.Stop{} })
			b.settle()
			b.node("n3", 1000)
		}, map[string]string{"g-0": "bound", "g-1": "cancelled"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := unaudited(t) // because tasks change
			b.core = New(Config{Gather: 1, FoldFrom: 1, Units: c.units})
			b.node("n1", 1000)
			b.node("n2", 1000)
			c.do(b)
			b.settle()
			for id, want := range c.want {
				if got, _, _ := strings.Cut(b.where(id), " "); got != want {
					t.Errorf("%s is %s, want %s", id, b.where(id), want)
				}
			}
			if left := len(b.core.inFlight); left > 0 {
				t.Errorf("%d in flight", left)
			}
		})
	}
}

// TestUnitLargerThanATransaction: it waits, and does not block others.
func TestUnitLargerThanATransaction(t *testing.T) {
	b := newBench(t, Config{Units: byPrefix{size: 30}, Limits: controlplane.Limits{Ops: 64, Bytes: 1 << 20}})
	b.node("n1", 100_000)
	for i := range 30 {
		b.task(fmt.Sprintf("g-%d", i), map[string]types.Quantity{"cpu": 10})
	}
	b.settle()
	b.task("z", map[string]types.Quantity{"cpu": 10})
	b.settle()
	b.expect("g-0", "pending")
	b.expect("z", "bound on n1")
	if used := b.core.blank.used(b.core.view.Nodes["n1"], types.CPU); len(used) > 0 || b.core.view.Nodes["n1"].Used(types.CPU) != 10 {
		t.Errorf("%d are in use", b.core.view.Nodes["n1"].Used(types.CPU))
	}
}

// TestUnitsAreWhole: in a run in which units of any size come and end, each is bound whole or not
// at all at every revision, and in the end all have been.
func TestUnitsAreWhole(t *testing.T) {
	const units = 40
	rng := rand.New(rand.NewPCG(1, 1))
	b := newBench(t, Config{Units: jobs{}})
	for i := range 6 {
		b.node(fmt.Sprintf("n%d", i), 4000)
	}
	for u := range units {
		size := 1 + rng.IntN(12)
		job := fmt.Sprintf("u%02d", u)
		kvs := []any{controlplane.JobKey("d", job), &types.Job{Name: "u", Tasks: size}}
		for i := range size {
			kvs = append(kvs, controlplane.TaskKey("d", fmt.Sprintf("%s-%d", job, i)),
				&types.Task{Job: job, Spec: "s", Submitted: int64(u + 1), Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000 * types.Quantity(1+rng.IntN(2))})})
		}
		b.put(kvs...)
		b.settle()
		b.whole()
		if u%3 == 2 {
			b.endOne(rng)
		}
	}
	for range units {
		b.endOne(rng)
	}
	for x := range b.core.view.Tasks() {
		if x.Phase() != types.Succeeded {
			t.Errorf("%s is %s", x.ID, x.Phase())
		}
	}
}

// jobs are units of all tasks of a job.
type jobs struct{}

func (jobs) Unit(_ *cluster.View, t *cluster.Task) string { return t.Info.V.Job }

func (jobs) Place(p *Placing, tasks []*cluster.Task) bool {
	for _, t := range tasks {
		if !p.Put(t) {
			return false
		}
	}
	return len(tasks) == p.View().Jobs[cluster.ID{Namespace: "d", ID: tasks[0].Info.V.Job}].V.Tasks
}

// whole checks that either all or no tasks of each job are bound, at one revision.
func (b *bench) whole() {
	b.t.Helper()
	for id, job := range b.core.view.Jobs {
		at := make(map[int64]int)
		for _, m := range b.core.view.Members(id) {
			var bound int64
			if len(m.Bindings) > 0 {
				bound = m.Bindings[0].Info.Create
			}
			at[bound]++
		}
		if len(at) != 1 || at[0] != 0 && at[0] != job.V.Tasks {
			b.t.Errorf("%s of %d tasks: bound at %v", id, job.V.Tasks, at)
		}
	}
}

// endOne ends all tasks of a running job, if there is one, at one revision.
func (b *bench) endOne(rng *rand.Rand) {
	b.t.Helper()
	var running []string
	for id := range b.core.view.Jobs {
		for _, m := range b.core.view.Members(id) {
			if len(m.Bindings) > 0 {
				running = append(running, id.ID)
				break
			}
		}
	}
	if len(running) == 0 {
		return
	}
	slices.Sort(running)
	job := running[rng.IntN(len(running))]
	for _, m := range b.core.view.Members(clusterID("d", job)) {
		b.exited(m.ID.ID)
	}
	b.settle()
	b.whole()
}
