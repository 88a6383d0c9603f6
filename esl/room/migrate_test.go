package room_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/types"
)

// fillNode takes so many cores of a node, and returns the task.
func fillNode(t *testing.T, jobs *esl.Client, node string, cores int) string {
	t.Helper()
	s := hollow.Task(1000 * cores)
	s.Task.Requests = s.Task.Requests.Plus(types.Requests{{Name: "node/" + node, Amount: 1000}})
	l := esltest.Submitted(t, jobs, []controlplane.Submission{s})
	esltest.Statuses(t, jobs, controlplane.UntilRunning, l.Tasks...)
	return l.Tasks[0]
}

// where returns the nodes of running tasks, sorted; "" means none.
func where(t *testing.T, c *hollow.Cluster, ids []string) string {
	t.Helper()
	v, err := c.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	running := hollow.Running(v, "d")
	var on []string
	for _, id := range ids {
		on = append(on, running[id])
	}
	slices.Sort(on)
	return strings.Join(on, " ")
}

// spreadOut starts a cluster of three nodes of four cores, and a job of four tasks that is spread
// over all by other tasks, which it returns by node.
func spreadOut(t *testing.T, p room.Migrate, command ...string) (*hollow.Cluster, *esl.Client, []string, map[string]string) {
	t.Helper()
	c, jobs := esltest.Ordered(t, 3)
	others := map[string]string{"n00": fillNode(t, jobs, "n00", 3), "n01": fillNode(t, jobs, "n01", 3), "n02": fillNode(t, jobs, "n02", 2)}
	l := esltest.Submitted(t, jobs, esl.Copies(4, hollow.Task(1000, command...)), p)
	esltest.Statuses(t, jobs, controlplane.UntilRunning, l.Tasks...)
	if on := where(t, c, l.Tasks); on != "n00 n01 n02 n02" {
		t.Fatalf("it begins on %s", on)
	}
	return c, jobs, l.Tasks, others
}

// TestMigrate moves a job when it fits, and again; only the tasks that have to move.
func TestMigrate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs, ids, others := spreadOut(t, room.Migrate{}, "stop", "3s")
		esltest.Pass(time.Minute)
		if a := attempts(t, c, ids); sum(a) != 4 {
			t.Errorf("it was moved to where there is no room: attempts %v", a)
		}
		stopped(t, jobs, others["n02"])
		esltest.Pass(2 * time.Second)
		hog := esltest.Submitted(t, jobs, esl.Copies(8, hollow.Task(1000))) // too late for that capacity
		esltest.Pass(20 * time.Second)
		if on, a := where(t, c, ids), attempts(t, c, ids); on != "n02 n02 n02 n02" || sum(a) != 6 {
			t.Errorf("it is on %s, attempts %v", on, a)
		}
		stopped(t, jobs, hog.Tasks...)
		if left, err := c.Left(t.Context(), "d"); err != nil || slices.ContainsFunc(left, func(k string) bool { return strings.HasPrefix(k, "reservations/") }) {
			t.Errorf("left of the move: %q, %v", left, err)
		}

		// Its node is lost: two wait, as two fit.
		if err := c.Kill(t.Context(), "n02"); err != nil {
			t.Fatal(err)
		}
		esltest.Pass(2 * time.Minute)
		stopped(t, jobs, others["n00"])
		esltest.Pass(2 * time.Minute)
		if on := where(t, c, ids); on != "n00 n00 n00 n00" {
			t.Errorf("it is on %s", on)
		}
		stopped(t, jobs, append(ids, others["n01"])...)
		esltest.NothingLeft(t, c)
	})
}

// TestMigrateRollsBack loses the destination while tasks are moving: they go on elsewhere.
func TestMigrateRollsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs, ids, others := spreadOut(t, room.Migrate{}, "stop", "9s")
		stopped(t, jobs, others["n02"])
		v, err := c.Await(t.Context(), func(v *cluster.View) bool {
			task := v.Task(cluster.ID{Namespace: "d", ID: ids[0]})
			for _, id := range ids {
				if x := v.Task(cluster.ID{Namespace: "d", ID: id}); x.Info.V.Evict > 0 {
					task = x
				}
			}
			return task.Info.V.Evict > 0
		})
		if err != nil {
			t.Fatal(err)
		}
		job := v.Task(cluster.ID{Namespace: "d", ID: ids[0]}).Info.V.Job
		if every := v.Everywhere[types.Resolve("d", job+".migrate.anywhere")]; every == nil || every.V.Capacity != 0 {
			t.Errorf("a task is evicted, and may begin anywhere: %+v", every)
		}
		if err := c.Kill(t.Context(), "n02"); err != nil {
			t.Fatal(err)
		}
		esltest.Pass(time.Minute)
		if on := where(t, c, ids); on != "  n00 n01" {
			t.Errorf("on two nodes with room for one each it is on %q", on)
		}
		if err := c.Return("n02"); err != nil {
			t.Fatal(err)
		}
		esltest.Pass(5 * time.Minute)
		if on := where(t, c, ids); on != "n02 n02 n02 n02" {
			t.Errorf("with the node back it is on %q", on)
		}
		stopped(t, jobs, append(ids, others["n00"], others["n01"])...)
		esltest.NothingLeft(t, c)
	})
}

// TestMigrateSurvives kills the process that runs the policy at many moments of a move.
func TestMigrateSurvives(t *testing.T) {
	for after := 0; after < 4000; after += 370 {
		synctest.Test(t, func(t *testing.T) {
			c, jobs, ids, others := spreadOut(t, room.Migrate{}, "stop", "2s")
			stopped(t, jobs, others["n02"])
			esltest.Pass(time.Duration(after) * time.Millisecond)
			c.StopKeeping()
			esltest.Pass(10 * time.Second)
			c.Keep()
			esltest.Pass(time.Minute)
			if on, a := where(t, c, ids), attempts(t, c, ids); on != "n02 n02 n02 n02" || sum(a) != 6 {
				t.Errorf("killed after %d ms: it is on %s, attempts %v", after, on, a)
			}
			stopped(t, jobs, append(ids, others["n00"], others["n01"])...)
			esltest.NothingLeft(t, c)
		})
	}
}

// TestMigrateTakesTooLong gives up a move whose tasks take too long to save.
func TestMigrateTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs, ids, others := spreadOut(t, room.Migrate{Within: 1e9}, "stop", "5s")
		stopped(t, jobs, others["n02"])
		esltest.Pass(3 * time.Second)
		v, err := c.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		job := v.Task(cluster.ID{Namespace: "d", ID: ids[0]}).Info.V.Job
		if every := v.Everywhere[types.Resolve("d", job+".migrate.anywhere")]; every == nil || every.V.Capacity == 0 {
			t.Error("after 3 s of a move that may take 1 s tasks may begin in the new place alone")
		}
		esltest.Pass(20 * time.Second)
		if on := where(t, c, ids); strings.HasPrefix(on, " ") {
			t.Errorf("it is on %q", on)
		}
		stopped(t, jobs, append(ids, others["n00"], others["n01"])...)
		esltest.NothingLeft(t, c)
	})
}

// TestMigrateThroughGates moves tasks that are admitted one by one: each passes its gate once, and
// the limit holds.
func TestMigrateThroughGates(t *testing.T) {
	for name, c := range map[string]struct {
		shared esl.Shared
		by     esl.Policy
	}{
		"queue":      {admission.Queue{Rate: 2, Per: manifest.Duration(10 * time.Second)}, esl.Use{Name: "s"}},
		"fair queue": {admission.FairQueue{Limit: 4, Anyone: 1}, esl.Use{Name: "s", As: "x"}},
		"share":      {share.FairShare{Anyone: 1}, esl.Use{Name: "s", As: "x"}},
	} {
		for i, policies := range [][]esl.Policy{{room.Migrate{}, c.by}, {c.by, room.Migrate{}}} {
			t.Run(fmt.Sprint(name, i), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cluster, jobs := esltest.Ordered(t, 2)
					if err := jobs.Declare(t.Context(), "s", c.shared, ""); err != nil {
						t.Fatal(err)
					}
					one := esltest.Submitted(t, jobs, esl.Copies(1, hollow.Task(100, "run", "1s")), policies...)
					soon, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					if _, err := jobs.Wait(soon, controlplane.UntilEnded, one.Tasks...); err != nil {
						t.Fatal(err)
					}
					others := []string{fillNode(t, jobs, "n00", 3), fillNode(t, jobs, "n01", 3)}
					two := esltest.Submitted(t, jobs, esl.Copies(2, hollow.Task(1000)), policies...)
					esltest.Pass(20 * time.Second)
					if on := where(t, cluster, two.Tasks); on != "n00 n01" {
						t.Errorf("it begins on %s", on)
					}
					stopped(t, jobs, others[1])
					esltest.Pass(2 * time.Minute)
					if on, a := where(t, cluster, two.Tasks), attempts(t, cluster, two.Tasks); on != "n01 n01" || sum(a) != 3 {
						t.Errorf("it is on %s, attempts %v", on, a)
					}
				})
			})
		}
	}
}

// TestMigrateIsRefused submits what cannot move.
func TestMigrateIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, jobs := esltest.Ordered(t, 1)
		either := hollow.Task(100)
		either.Task.Alternatives = []types.Alternative{{After: time.Second}, {}}
		long, given := esltest.Called(strings.Repeat("n", 38), "run"), hollow.Task(100)
		given.ID = strings.Repeat("i", 56)
		for want, tasks := range map[string][]controlplane.Submission{
			"tasks[0].name: \"nnn": {long}, "with the id \"iii": {given},
			"tasks[1].requests: those that move": {hollow.Task(100), hollow.Task(200)},
			"tasks[0]: it has alternatives":      {either},
			"tasks[0].requests: it asks for":     {{Spec: hollow.Task(1).Spec}},
		} {
			if _, err := jobs.Submit(t.Context(), controlplane.Job{Tasks: tasks}, room.Migrate{Ask: true}); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, not %q", err, want)
			}
		}
		if _, err := jobs.Submit(t.Context(), controlplane.Job{Tasks: esl.Copies(1, hollow.Task(100))}, room.Migrate{Pause: -1}); !types.Is(err, types.Invalid) {
			t.Error(err)
		}
	})
}

// ExampleMigrate moves two tasks onto one node when they fit there.
func ExampleMigrate() {
	ctx := context.Background()
	c, err := hollow.Start(ctx, hollow.Config{Nodes: hollow.Nodes(2, 2)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()
	jobs, err := c.Client("default")
	if err != nil {
		fmt.Println(err)
		return
	}
	// A short task on either node leaves room for one task each.
	if _, err := jobs.Submit(ctx, controlplane.Job{Name: "short", Tasks: esl.Copies(2, hollow.Task(1000, "run", "200ms"))}, place.Apart{}); err != nil {
		fmt.Println(err)
		return
	}
	long, err := jobs.Submit(ctx, controlplane.Job{Name: "long", Tasks: esl.Copies(2, hollow.Task(1000))}, room.Migrate{})
	if err != nil {
		fmt.Println(err)
		return
	}
	together := func(v *cluster.View) bool {
		on := hollow.Running(v, "default")
		one, other := on[long.Tasks[0]], on[long.Tasks[1]]
		return one != "" && one == other
	}
	if _, err := c.Await(ctx, together); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("together")
	// Output: together
}
