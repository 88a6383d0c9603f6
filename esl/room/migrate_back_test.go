package room_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/types"
)

// evicted waits until one of some tasks is evicted, and returns the job.
func evicted(t *testing.T, c *hollow.Cluster, ids []string) (job string) {
	t.Helper()
	v, err := c.Await(t.Context(), func(v *cluster.View) bool {
		return slices.ContainsFunc(ids, func(id string) bool { return v.Task(esltest.IDOf(id)).Info.V.Evict > 0 })
	})
	if err != nil {
		t.Fatal(err)
	}
	return v.Task(esltest.IDOf(ids[0])).Info.V.Job
}

// hog submits tasks that wait for all free capacity, before all others.
func hog(t *testing.T, jobs *esl.Client) []string {
	t.Helper()
	s := hollow.Task(1000)
	s.Task.Priority = 9
	return esltest.Submitted(t, jobs, esl.Copies(8, s)).Tasks
}

// isMoving reports whether a destination is reserved for a job.
func isMoving(t *testing.T, c *hollow.Cluster, job string) bool {
	t.Helper()
	v, err := c.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, slot := range []string{"a", "b"} {
		if r := v.Reservations[esltest.IDOf(job+".migrate."+slot)]; r != nil && r.Info.V != nil {
			return true
		}
	}
	return false
}

// TestMigrateReturns loses the destination at many moments of a move, with or without a kill of the
// process that runs the policy. Until a task runs there, no other task gets its former place,
// however urgent, and tasks that lose the destination return to it.
func TestMigrateReturns(t *testing.T) {
	returned, arrived := 0, 0
	for after := 0; after < 5000; after += 230 {
		for _, killed := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				c, jobs, ids, others := spreadOut(t, room.Migrate{}, "stop", "3s")
				stopped(t, jobs, others["n02"])
				job := evicted(t, c, ids)
				urgent := hog(t, jobs)
				esltest.Pass(time.Duration(after) * time.Millisecond)
				before, moving := where(t, c, urgent), isMoving(t, c, job)
				if killed {
					c.StopKeeping()
				}
				if err := c.Kill(t.Context(), "n02"); err != nil {
					t.Fatal(err)
				}
				esltest.Pass(5 * time.Second)
				if killed {
					c.Keep()
				}
				esltest.Pass(time.Minute)
				if !moving {
					arrived++ // all were there, and nothing is reserved for them any more
				} else if on := where(t, c, ids); on != "  n00 n01" || strings.TrimSpace(before) != "" {
					t.Errorf("lost after %d ms: it is on %q; another task was on %q", after, on, before)
				} else {
					returned++
				}
				if err := c.Return("n02"); err != nil {
					t.Fatal(err)
				}
				esltest.Pass(time.Minute)
				stopped(t, jobs, slices.Concat(ids, urgent, []string{others["n00"], others["n01"]})...)
				esltest.NothingLeft(t, c)
			})
		}
	}
	if returned < 10 || arrived < 5 {
		t.Errorf("%d have returned, and %d had arrived", returned, arrived)
	}
}

// TestMigrateKeepsUntilAllRun: no other task gets their former places before all of them run; then
// others do.
func TestMigrateKeepsUntilAllRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs, ids, others := spreadOut(t, room.Migrate{}, "stop", "3s")
		stopped(t, jobs, others["n02"])
		job := evicted(t, c, ids)
		urgent := hog(t, jobs)
		for {
			on := strings.TrimSpace(where(t, c, urgent)) // before the policy knows that it still moves
			if !isMoving(t, c, job) {
				break
			}
			if on != "" {
				t.Fatalf("another task is on %s", on)
			}
			time.Sleep(20 * time.Millisecond)
		}
		esltest.Pass(5 * time.Second)
		if on := where(t, c, ids); on != "n02 n02 n02 n02" {
			t.Errorf("it is on %q", on)
		}
		if on := strings.TrimSpace(where(t, c, urgent)); on != "n00 n01" {
			t.Errorf("what they left has %q", on)
		}
		stopped(t, jobs, slices.Concat(ids, urgent, []string{others["n00"], others["n01"]})...)
		esltest.NothingLeft(t, c)
	})
}

// TestMigrateDoesNotStart returns a task that does not start at its destination a moment later.
func TestMigrateDoesNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := hollow.Start(context.Background(), hollow.Config{Nodes: hollow.Nodes(3, 4), Behave: hollow.BrokenOn("n02")})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
		jobs, err := c.Client("d")
		if err != nil {
			t.Fatal(err)
		}
		others := []string{fillNode(t, jobs, "n00", 3), fillNode(t, jobs, "n01", 3), fillNode(t, jobs, "n02", 2)}
		ids := esltest.Submitted(t, jobs, esl.Copies(4, hollow.Task(1000, "stop", "1s")), room.Migrate{}).Tasks
		esltest.Statuses(t, jobs, controlplane.UntilRunning, ids...)
		stopped(t, jobs, others[2])
		evicted(t, c, ids)
		urgent := hog(t, jobs)
		esltest.Pass(10 * time.Second)
		if on := where(t, c, ids); on != "n00 n01 n02 n02" {
			t.Errorf("it is on %q", on)
		}
		stopped(t, jobs, slices.Concat(ids, urgent, others[:2])...)
		esltest.NothingLeft(t, c)
	})
}

// answer stores the answers of tasks, as by the task API: with the number of the question.
func answer(t *testing.T, c *hollow.Cluster, jobs *esl.Client, how string, ids ...string) {
	t.Helper()
	v, err := c.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		asked := v.Pool(types.Resolve("d", id+".save"))
		if asked == nil {
			t.Fatalf("task %s is not asked", id)
		}
		opts := controlplane.SetOptions{Lifetime: types.OfTask, Owner: id}
		if _, err := jobs.SetResource(t.Context(), id+how, asked.Capacity(), controlplane.InCluster(), opts); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
}

// askedTo returns the tasks that are asked to save.
func askedTo(t *testing.T, c *hollow.Cluster, ids []string) (out []string) {
	t.Helper()
	v, err := c.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if v.Pool(types.Resolve("d", id+".save")) != nil {
			out = append(out, id)
		}
	}
	return out
}

// TestMigrateAsks asks tasks that will move to save first. If one cannot, nothing happens to any of
// them, the reservation ends at once, and why says so; when all have, they move. An answer to an
// earlier move does not count.
func TestMigrateAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs, ids, others := spreadOut(t, room.Migrate{Ask: true}, "stop", "1s")
		stopped(t, jobs, others["n02"])
		esltest.Pass(5 * time.Second)
		asked := askedTo(t, c, ids)
		if len(asked) != 2 || sum(attempts(t, c, ids)) != 4 {
			t.Fatalf("asked are %q, attempts %v", asked, attempts(t, c, ids))
		}
		job := func() string {
			v, err := c.View(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return v.Task(esltest.IDOf(ids[0])).Info.V.Job
		}()
		answer(t, c, jobs, ".saved", asked[0])
		answer(t, c, jobs, ".unsaved", asked[1])
		esltest.Pass(500 * time.Millisecond)
		if left := askedTo(t, c, ids); isMoving(t, c, job) || len(left) > 0 {
			t.Errorf("it is not given up: asked are %q", left)
		}
		urgent := hog(t, jobs)
		esltest.Pass(20 * time.Second)
		if on, a := where(t, c, ids), attempts(t, c, ids); on != "n00 n01 n02 n02" || sum(a) != 4 {
			t.Errorf("it is on %q, attempts %v", on, a)
		}
		if on := strings.TrimSpace(where(t, c, urgent)); on != "n02 n02" {
			t.Errorf("what was reserved is given up, and others are on %q", on)
		}
		v, err := c.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if says := esl.Why(v, builtin.Kinds(), esltest.IDOf(ids[0]), time.Now()); len(says) != 1 || !strings.Contains(says[0].Summary, "as task "+asked[1]+" could not save what it needs") {
			t.Errorf("why: %v", says)
		}

		stopped(t, jobs, urgent...)
		esltest.Pass(time.Minute)
		if again := askedTo(t, c, ids); len(again) != 2 || sum(attempts(t, c, ids)) != 4 {
			t.Fatalf("it is not asked again: asked are %q, attempts %v", again, attempts(t, c, ids))
		}
		answer(t, c, jobs, ".saved", asked[1])
		esltest.Pass(2 * time.Second)
		if a := attempts(t, c, ids); sum(a) != 4 {
			t.Fatalf("the answer to the move before counts: attempts %v", a)
		}
		answer(t, c, jobs, ".saved", asked[0])
		esltest.Pass(10 * time.Second)
		if on, a := where(t, c, ids), attempts(t, c, ids); on != "n02 n02 n02 n02" || sum(a) != 6 {
			t.Errorf("it is on %q, attempts %v", on, a)
		}
		stopped(t, jobs, append(ids, others["n00"], others["n01"])...)
		esltest.NothingLeft(t, c)
	})
}

// TestMigrateIsNotAnswered: a task without an answer is not moved, and the question ends at the
// deadline.
func TestMigrateIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs, ids, others := spreadOut(t, room.Migrate{Ask: true, Within: 10e9}, "stop", "1s")
		stopped(t, jobs, others["n02"])
		esltest.Pass(5 * time.Second)
		answer(t, c, jobs, ".saved", askedTo(t, c, ids)[0])
		esltest.Pass(10 * time.Second)
		if left := askedTo(t, c, ids); len(left) > 0 || sum(attempts(t, c, ids)) != 4 {
			t.Errorf("asked are %q, attempts %v", left, attempts(t, c, ids))
		}
		stopped(t, jobs, append(ids, others["n00"], others["n01"])...)
		esltest.NothingLeft(t, c)
	})
}
