package esl_test

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
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// ordered starts a cluster of nodes of four cores that ends with the test, with a client.
func ordered(t *testing.T, nodes int) (*hollow.Cluster, *esl.Client) {
	t.Helper()
	return orderedOn(t, hollow.Nodes(nodes, 4))
}

// orderedOn is ordered, on nodes of one's own.
func orderedOn(t *testing.T, nodes []hollow.Node) (*hollow.Cluster, *esl.Client) {
	t.Helper()
	c, err := hollow.Start(context.Background(), hollow.Config{Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	client, err := c.Client("d")
	if err != nil {
		t.Fatal(err)
	}
	return c, client
}

// nothingLeft fails the test if an invariant did not hold, or something is left.
func nothingLeft(t *testing.T, c *hollow.Cluster) {
	t.Helper()
	time.Sleep(5 * time.Second) // the collector looks once a second
	if err := c.Audit(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := c.Left(t.Context(), "d"); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// called returns a task of half a core with a name.
func called(name string, command ...string) controlplane.Submission {
	s := hollow.Task(500, command...)
	s.Task.Name = name
	return s
}

// submitted submits a job, and returns the ids of its tasks.
func submitted(t *testing.T, jobs *esl.Client, tasks []controlplane.Submission, policies ...esl.Policy) controlplane.Launched {
	t.Helper()
	l, err := jobs.Submit(t.Context(), esl.Job{Name: "job", Tasks: tasks}, policies...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// statuses waits until tasks are so far, and returns their statuses in order.
func statuses(t *testing.T, jobs *esl.Client, until controlplane.Until, ids ...string) []types.Status {
	t.Helper()
	all, err := jobs.Wait(t.Context(), until, ids...)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]types.Status, len(ids))
	for i, id := range ids {
		out[i] = all[id]
	}
	return out
}

// why returns what esl says of a task now.
func why(t *testing.T, c *hollow.Cluster, id string) string {
	t.Helper()
	v, err := c.Await(t.Context(), func(*cluster.View) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(esl.Why(v, esl.Builtin(), cluster.ID{Namespace: "d", ID: id}, time.Now()), " ")
}

// TestAfter runs a diamond with two tasks in its middle, submitted from its end.
func TestAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := ordered(t, 2)
		l := submitted(t, jobs, []controlplane.Submission{
			called("last", "run", "1s"), called("middle", "run", "2s"), called("middle", "run", "3s"), called("first", "run", "2s"),
		}, esl.After{Tasks: map[string][]string{"last": {"middle"}, "middle": {"first"}}})
		statuses(t, jobs, controlplane.UntilRunning, l.Tasks[3])
		if text := why(t, c, l.Tasks[1]); !strings.Contains(text, "task "+l.Tasks[3]+", which is running") {
			t.Errorf("why: %q", text)
		}
		s := statuses(t, jobs, controlplane.UntilEnded, l.Tasks...)
		for _, pair := range [][2]int{{3, 1}, {3, 2}, {1, 0}, {2, 0}} {
			if earlier, later := s[pair[0]], s[pair[1]]; later.Started < earlier.Ended || later.Phase != types.Succeeded {
				t.Errorf("task %d began at %d (%s), and %d had ended at %d", pair[1], later.Started, later.Phase, pair[0], earlier.Ended)
			}
		}
		nothingLeft(t, c)
	})
}

// TestAfterFailure ends what comes after a task that failed, and what comes after that,
// and leaves the rest alone; or lets it begin.
func TestAfterFailure(t *testing.T) {
	for _, then := range []esl.OnFailure{"", esl.RunAnyway} {
		synctest.Test(t, func(t *testing.T) {
			c, jobs := ordered(t, 2)
			l := submitted(t, jobs, []controlplane.Submission{
				called("a", "run", "1s", "exit", "3"), called("b", "run", "1s"), called("c", "run", "1s"), called("free", "run", "4s"),
			}, esl.After{Tasks: map[string][]string{"b": {"a"}, "c": {"b"}}, OnFailure: then})
			s := statuses(t, jobs, controlplane.UntilEnded, l.Tasks...)
			want := []types.Phase{types.Failed, types.Cancelled, types.Cancelled, types.Succeeded}
			if then == esl.RunAnyway {
				want[1], want[2] = types.Succeeded, types.Succeeded
			}
			for i := range want {
				if s[i].Phase != want[i] {
					t.Errorf("onFailure %q: task %d %s, not %s: %s", then, i, s[i].Phase, want[i], s[i].Reason)
				}
			}
			if then == "" && !strings.Contains(s[1].Reason, l.Tasks[0]) {
				t.Errorf("the reason does not name what failed: %q", s[1].Reason)
			}
			nothingLeft(t, c)
		})
	}
}

// TestAfterSurvives loses a node, and what keeps the policy, between the parts of a chain.
func TestAfterSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := ordered(t, 3)
		l := submitted(t, jobs, []controlplane.Submission{called("a", "run", "20s"), called("b", "run", "20s"), called("c", "run", "1s")},
			esl.After{Tasks: map[string][]string{"b": {"a"}, "c": {"b"}}})
		for i := range 2 {
			node := statuses(t, jobs, controlplane.UntilRunning, l.Tasks[i])[0].Node
			c.StopKeeping()
			if err := c.Kill(t.Context(), node); err != nil {
				t.Fatal(err)
			}
			if err := c.Return(node); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Second)
			c.Keep()
		}
		s := statuses(t, jobs, controlplane.UntilEnded, l.Tasks...)
		for i := range s {
			if s[i].Phase != types.Succeeded || i > 0 && s[i].Started < s[i-1].Ended {
				t.Errorf("task %d: %+v", i, s[i])
			}
		}
		nothingLeft(t, c)
	})
}

// TestAfterJobs has a job come after two others, of which one fails.
func TestAfterJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := ordered(t, 2)
		good := submitted(t, jobs, []controlplane.Submission{called("x", "run", "2s"), called("x", "run", "5s")})
		bad := submitted(t, jobs, []controlplane.Submission{called("x", "run", "7s", "exit", "1")})
		next := submitted(t, jobs, []controlplane.Submission{called("y", "run", "1s"), called("z", "run", "1s")},
			esl.After{Jobs: []string{good.Job}, Tasks: map[string][]string{"z": {"y"}}})
		never := submitted(t, jobs, []controlplane.Submission{called("y")}, esl.After{Jobs: []string{good.Job, bad.Job}})
		first := statuses(t, jobs, controlplane.UntilEnded, good.Tasks...)
		s := statuses(t, jobs, controlplane.UntilEnded, next.Tasks...)
		if s[0].Started < first[1].Ended || s[1].Started < s[0].Ended || s[1].Phase != types.Succeeded {
			t.Errorf("it did not come after the job: %+v", s)
		}
		for _, id := range []string{never.Tasks[0]} {
			if s := statuses(t, jobs, controlplane.UntilEnded, id)[0]; s.Phase != types.Cancelled || !strings.Contains(s.Reason, "comes after") {
				t.Errorf("%+v", s)
			}
		}
		nothingLeft(t, c)
	})
}

// TestAfterIsRefused gives policies that can never be met: each error names what is wrong.
func TestAfterIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, jobs := ordered(t, 1)
		for want, p := range map[string]esl.After{
			"nothing comes after anything":              {},
			`tasks: no task is called "x": there are a`: {Tasks: map[string][]string{"x": {"a"}}},
			`tasks.b: no task is called "x"`:            {Tasks: map[string][]string{"b": {"x"}}},
			"tasks: a, b, c come after one another":     {Tasks: map[string][]string{"b": {"a"}, "c": {"b"}, "a": {"c"}}},
			"tasks: a come after one another":           {Tasks: map[string][]string{"a": {"a"}}},
			`onFailure: "explode" is unknown`:           {Tasks: map[string][]string{"b": {"a"}}, OnFailure: "explode"},
			"jobs[0]: ":                                 {Jobs: []string{"a/b"}},
		} {
			_, err := jobs.Submit(t.Context(), esl.Job{Tasks: []controlplane.Submission{called("a"), called("b"), called("c")}}, p)
			if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, not %q", p, err, want)
			}
		}
		if all, _, err := jobs.Tasks(t.Context()); err != nil || len(all) > 0 {
			t.Errorf("something was written: %d tasks, %v", len(all), err)
		}
	})
}

// TestAfterManyLevels runs a chain of a hundred, and a fan of as many gates as tasks.
func TestAfterManyLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := ordered(t, 4)
		var tasks []controlplane.Submission
		p := esl.After{Tasks: make(map[string][]string)}
		for i := range 100 {
			tasks = append(tasks, called(fmt.Sprintf("c%d", i), "run", "10ms"), called(fmt.Sprintf("f%d", i), "run", "10ms"))
			if i > 0 {
				p.Tasks[fmt.Sprintf("c%d", i)] = []string{fmt.Sprintf("c%d", i-1)}
				p.Tasks[fmt.Sprintf("f%d", i)] = []string{"f0", fmt.Sprintf("c%d", i/10)}
			}
		}
		l := submitted(t, jobs, tasks, p)
		for i, s := range statuses(t, jobs, controlplane.UntilEnded, l.Tasks...) {
			if s.Phase != types.Succeeded {
				t.Errorf("task %d %s: %s", i, s.Phase, s.Reason)
			}
		}
		nothingLeft(t, c)
	})
}

// TestBarrier holds workers back until enough servers run.
func TestBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := ordered(t, 1) // four cores: eight tasks of half a core
		filler := submitted(t, jobs, esl.Copies(7, called("filler")))
		statuses(t, jobs, controlplane.UntilRunning, filler.Tasks...)
		l := submitted(t, jobs, []controlplane.Submission{called("worker", "run", "1s"), called("server"), called("server")}, esl.Barrier{Tasks: []string{"server"}})
		time.Sleep(time.Minute)
		if text := why(t, c, l.Tasks[0]); !strings.Contains(text, "until 2 of [server] are running: 1 are") {
			t.Errorf("why: %q", text)
		}
		for _, id := range filler.Tasks[:2] {
			if err := jobs.Stop(t.Context(), id, controlplane.StopOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if s := statuses(t, jobs, controlplane.UntilEnded, l.Tasks[0])[0]; s.Phase != types.Succeeded {
			t.Errorf("%+v", s)
		}
		for _, id := range slices.Concat(filler.Tasks, l.Tasks) {
			if err := jobs.Stop(t.Context(), id, controlplane.StopOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		statuses(t, jobs, controlplane.UntilEnded, slices.Concat(filler.Tasks, l.Tasks)...)
		nothingLeft(t, c)
	})
}

// TestBarrierNeverReached ends the workers when too few of the servers are left.
func TestBarrierNeverReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := ordered(t, 1)
		l := submitted(t, jobs, []controlplane.Submission{called("worker"), called("s", "run", "2s"), called("s", "run", "1s", "exit", "1"), called("s", "run", "3s")},
			esl.Barrier{Tasks: []string{"s"}, When: types.WhenSucceeded})
		if s := statuses(t, jobs, controlplane.UntilEnded, l.Tasks...)[0]; s.Phase != types.Cancelled || !strings.Contains(s.Reason, "only 2 can be there") {
			t.Errorf("%+v", s)
		}
		two := submitted(t, jobs, []controlplane.Submission{called("worker", "run", "1s"), called("s", "run", "2s"), called("s", "run", "1s", "exit", "1"), called("s", "run", "3s")},
			esl.Barrier{Tasks: []string{"s"}, When: types.WhenSucceeded, Count: 2})
		if s := statuses(t, jobs, controlplane.UntilEnded, two.Tasks...); s[0].Phase != types.Succeeded || s[0].Started < s[3].Ended {
			t.Errorf("%+v", s)
		}
		for want, p := range map[string]esl.Barrier{
			"name at least one": {}, `no task is called "x"`: {Tasks: []string{"x"}}, "count: 3": {Tasks: []string{"s"}, Count: 3},
			"none is left to wait": {Tasks: []string{"s", "worker"}}, `when: "soon"`: {Tasks: []string{"s"}, When: "soon"}, "count: -1": {Tasks: []string{"s"}, Count: -1},
		} {
			_, err := jobs.Submit(t.Context(), esl.Job{Tasks: []controlplane.Submission{called("worker"), called("s"), called("s")}}, p)
			if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, not %q", p, err, want)
			}
		}
		nothingLeft(t, c)
	})
}

// TestSemaphore has two jobs share three of something: never more are held.
func TestSemaphore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := ordered(t, 4)
		if err := jobs.Declare(t.Context(), "db", esl.Semaphore{Limit: 3}, ""); err != nil {
			t.Fatal(err)
		}
		one := submitted(t, jobs, esl.Copies(5, called("x", "run", "10s")), esl.Holds{Semaphore: "db"})
		two := submitted(t, jobs, esl.Copies(3, called("y", "run", "10s")), esl.Holds{Semaphore: "db", Amount: 2})
		all := slices.Concat(one.Tasks, two.Tasks)
		time.Sleep(time.Second)
		if v, err := c.Await(t.Context(), func(*cluster.View) bool { return true }); err != nil || len(hollow.Running(v, "d")) != 3 {
			t.Errorf("%v run, %v", hollow.Running(v, "d"), err)
		}
		if text := why(t, c, two.Tasks[2]); !strings.Contains(text, "0 of 3 is free") {
			t.Errorf("why: %q", text)
		}
		held := 0
		type edge struct{ at, by int64 }
		var edges []edge
		for i, s := range statuses(t, jobs, controlplane.UntilEnded, all...) {
			by := int64(1)
			if i >= 5 {
				by = 2
			}
			edges = append(edges, edge{s.Bound, by}, edge{s.Ended, -by})
		}
		slices.SortFunc(edges, func(a, b edge) int { return int(2*(a.at-b.at) + (a.by - b.by)) })
		for _, e := range edges {
			if held += int(e.by); held > 3 {
				t.Errorf("%d are held", held)
			}
		}
		for want, p := range map[string]esl.Policy{
			"each task would hold 4": esl.Holds{Semaphore: "db", Amount: 4}, `there is no shared policy "nothing"`: esl.Holds{Semaphore: "nothing"}, "a semaphore is shared": esl.Semaphore{Limit: 1},
		} {
			if _, err := jobs.Submit(t.Context(), esl.Job{Tasks: []controlplane.Submission{called("a")}}, p); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, not %q", p, err, want)
			}
		}
		time.Sleep(5 * time.Second) // the collector looks once a second
		if err := jobs.Withdraw(t.Context(), "db", false); err != nil {
			t.Error(err)
		}
		nothingLeft(t, c)
	})
}

// ExampleAfter runs three tasks one after the other, though they are submitted at once.
func ExampleAfter() {
	ctx := context.Background()
	c, err := hollow.Start(ctx, hollow.Config{Nodes: hollow.Nodes(2, 4)})
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
	task := func(name string) controlplane.Submission {
		s := hollow.Task(1000, "run", "10ms")
		s.Task.Name = name
		return s
	}
	job, err := jobs.Submit(ctx, esl.Job{Name: "pipeline", Tasks: []controlplane.Submission{task("train"), task("fetch"), task("report")}},
		esl.After{Tasks: map[string][]string{"train": {"fetch"}, "report": {"train"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	all, err := jobs.Wait(ctx, controlplane.UntilEnded, job.Tasks...)
	if err != nil {
		fmt.Println(err)
		return
	}
	train, fetch, report := all[job.Tasks[0]], all[job.Tasks[1]], all[job.Tasks[2]]
	fmt.Println(fetch.Ended <= train.Started && train.Ended <= report.Started)
	// Output: true
}

// TestAfterTwoThatFailed ends what comes after two jobs, or a job and a task, which have all
// failed before it was looked.
func TestAfterTwoThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := ordered(t, 2)
		one := submitted(t, jobs, []controlplane.Submission{called("x", "exit", "1"), called("x", "run", "10s")})
		two := submitted(t, jobs, []controlplane.Submission{called("x", "exit", "1"), called("x", "run", "10s")})
		pass(2 * time.Second)
		never := submitted(t, jobs, []controlplane.Submission{called("y")}, esl.After{Jobs: []string{one.Job, two.Job}})
		pass(20 * time.Second)
		s, err := jobs.Status(t.Context(), never.Tasks[0])
		if err != nil || s.Phase() != types.Cancelled || !strings.Contains(s.Status.Reason, "comes after") {
			t.Errorf("%+v, %v", s, err)
		}
		nothingLeft(t, c)
	})
}
