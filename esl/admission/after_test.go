package admission_test

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
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/types"
)

// TestAfter runs a diamond with two tasks in its middle, submitted from its end.
func TestAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 2)
		l := esltest.Submitted(t, jobs, []controlplane.Submission{
			esltest.Called("last", "run", "1s"), esltest.Called("middle", "run", "2s"), esltest.Called("middle", "run", "3s"), esltest.Called("first", "run", "2s"),
		}, admission.After{Tasks: map[string][]string{"last": {"middle"}, "middle": {"first"}}})
		esltest.Statuses(t, jobs, controlplane.UntilRunning, l.Tasks[3])
		if text := esltest.TaskWhy(t, c, l.Tasks[1]); !strings.Contains(text, "task "+l.Tasks[3]+", which is running") {
			t.Errorf("why: %q", text)
		}
		s := esltest.Statuses(t, jobs, controlplane.UntilEnded, l.Tasks...)
		for _, pair := range [][2]int{{3, 1}, {3, 2}, {1, 0}, {2, 0}} {
			if earlier, later := s[pair[0]], s[pair[1]]; later.Started < earlier.Ended || later.Phase != types.Succeeded {
				t.Errorf("task %d began at %d (%s), and %d had ended at %d", pair[1], later.Started, later.Phase, pair[0], earlier.Ended)
			}
		}
		esltest.NothingLeft(t, c)
	})
}

// TestAfterFailure ends the direct and indirect successors of a failed task, and leaves the rest
// alone; or it starts them.
func TestAfterFailure(t *testing.T) {
	for _, then := range []admission.OnFailure{"", admission.RunAnyway} {
		synctest.Test(t, func(t *testing.T) {
			c, jobs := esltest.Ordered(t, 2)
			l := esltest.Submitted(t, jobs, []controlplane.Submission{
				esltest.Called("a", "run", "1s", "exit", "3"), esltest.Called("b", "run", "1s"), esltest.Called("c", "run", "1s"), esltest.Called("free", "run", "4s"),
			}, admission.After{Tasks: map[string][]string{"b": {"a"}, "c": {"b"}}, OnFailure: then})
			s := esltest.Statuses(t, jobs, controlplane.UntilEnded, l.Tasks...)
			want := []types.Phase{types.Failed, types.Cancelled, types.Cancelled, types.Succeeded}
			if then == admission.RunAnyway {
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
			esltest.NothingLeft(t, c)
		})
	}
}

// TestAfterSurvives loses a node, and the program that runs the policy, in the midst of a chain.
func TestAfterSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 3)
		l := esltest.Submitted(t, jobs, []controlplane.Submission{esltest.Called("a", "run", "20s"), esltest.Called("b", "run", "20s"), esltest.Called("c", "run", "1s")},
			admission.After{Tasks: map[string][]string{"b": {"a"}, "c": {"b"}}})
		for i := range 2 {
			node := esltest.Statuses(t, jobs, controlplane.UntilRunning, l.Tasks[i])[0].Node
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
		s := esltest.Statuses(t, jobs, controlplane.UntilEnded, l.Tasks...)
		for i := range s {
			if s[i].Phase != types.Succeeded || i > 0 && s[i].Started < s[i-1].Ended {
				t.Errorf("task %d: %+v", i, s[i])
			}
		}
		esltest.NothingLeft(t, c)
	})
}

// TestAfterJobs submits a job after two others, one of which fails.
func TestAfterJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 2)
		good := esltest.Submitted(t, jobs, []controlplane.Submission{esltest.Called("x", "run", "2s"), esltest.Called("x", "run", "5s")})
		bad := esltest.Submitted(t, jobs, []controlplane.Submission{esltest.Called("x", "run", "7s", "exit", "1")})
		next := esltest.Submitted(t, jobs, []controlplane.Submission{esltest.Called("y", "run", "1s"), esltest.Called("z", "run", "1s")},
			admission.After{Jobs: []string{good.Job}, Tasks: map[string][]string{"z": {"y"}}})
		never := esltest.Submitted(t, jobs, []controlplane.Submission{esltest.Called("y")}, admission.After{Jobs: []string{good.Job, bad.Job}})
		first := esltest.Statuses(t, jobs, controlplane.UntilEnded, good.Tasks...)
		s := esltest.Statuses(t, jobs, controlplane.UntilEnded, next.Tasks...)
		if s[0].Started < first[1].Ended || s[1].Started < s[0].Ended || s[1].Phase != types.Succeeded {
			t.Errorf("it did not come after the job: %+v", s)
		}
		for _, id := range []string{never.Tasks[0]} {
			if s := esltest.Statuses(t, jobs, controlplane.UntilEnded, id)[0]; s.Phase != types.Cancelled || !strings.Contains(s.Reason, "comes after") {
				t.Errorf("%+v", s)
			}
		}
		esltest.NothingLeft(t, c)
	})
}

// TestAfterIsRefused submits impossible policies: each error names the problem.
func TestAfterIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, jobs := esltest.Ordered(t, 1)
		for want, p := range map[string]admission.After{
			"nothing comes after anything":              {},
			`tasks: no task is called "x": there are a`: {Tasks: map[string][]string{"x": {"a"}}},
			`tasks.b: no task is called "x"`:            {Tasks: map[string][]string{"b": {"x"}}},
			"tasks: a, b, c come after one another":     {Tasks: map[string][]string{"b": {"a"}, "c": {"b"}, "a": {"c"}}},
			"tasks: a come after one another":           {Tasks: map[string][]string{"a": {"a"}}},
			`onFailure: "explode" is unknown`:           {Tasks: map[string][]string{"b": {"a"}}, OnFailure: "explode"},
			"jobs[0]: ":                                 {Jobs: []string{"a/b"}},
		} {
			_, err := jobs.Submit(t.Context(), controlplane.Job{Tasks: []controlplane.Submission{esltest.Called("a"), esltest.Called("b"), esltest.Called("c")}}, p)
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
		c, jobs := esltest.Ordered(t, 4)
		var tasks []controlplane.Submission
		p := admission.After{Tasks: make(map[string][]string)}
		for i := range 100 {
			tasks = append(tasks, esltest.Called(fmt.Sprintf("c%d", i), "run", "10ms"), esltest.Called(fmt.Sprintf("f%d", i), "run", "10ms"))
			if i > 0 {
				p.Tasks[fmt.Sprintf("c%d", i)] = []string{fmt.Sprintf("c%d", i-1)}
				p.Tasks[fmt.Sprintf("f%d", i)] = []string{"f0", fmt.Sprintf("c%d", i/10)}
			}
		}
		l := esltest.Submitted(t, jobs, tasks, p)
		for i, s := range esltest.Statuses(t, jobs, controlplane.UntilEnded, l.Tasks...) {
			if s.Phase != types.Succeeded {
				t.Errorf("task %d %s: %s", i, s.Phase, s.Reason)
			}
		}
		esltest.NothingLeft(t, c)
	})
}

// TestBarrier holds workers back until enough servers run.
func TestBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 1) // four cores: eight tasks of half a core
		filler := esltest.Submitted(t, jobs, esl.Copies(7, esltest.Called("filler")))
		esltest.Statuses(t, jobs, controlplane.UntilRunning, filler.Tasks...)
		l := esltest.Submitted(t, jobs, []controlplane.Submission{esltest.Called("worker", "run", "1s"), esltest.Called("server"), esltest.Called("server")}, admission.Barrier{Tasks: []string{"server"}})
		time.Sleep(time.Minute)
		if text := esltest.TaskWhy(t, c, l.Tasks[0]); !strings.Contains(text, "until 2 of [server] are running: 1 are") {
			t.Errorf("why: %q", text)
		}
		for _, id := range filler.Tasks[:2] {
			if err := jobs.Stop(t.Context(), id, controlplane.StopOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if s := esltest.Statuses(t, jobs, controlplane.UntilEnded, l.Tasks[0])[0]; s.Phase != types.Succeeded {
			t.Errorf("%+v", s)
		}
		for _, id := range slices.Concat(filler.Tasks, l.Tasks) {
			if err := jobs.Stop(t.Context(), id, controlplane.StopOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		esltest.Statuses(t, jobs, controlplane.UntilEnded, slices.Concat(filler.Tasks, l.Tasks)...)
		esltest.NothingLeft(t, c)
	})
}

// TestBarrierNeverReached ends the workers when too few servers are left.
func TestBarrierNeverReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 1)
		l := esltest.Submitted(t, jobs, []controlplane.Submission{esltest.Called("worker"), esltest.Called("s", "run", "2s"), esltest.Called("s", "run", "1s", "exit", "1"), esltest.Called("s", "run", "3s")},
			admission.Barrier{Tasks: []string{"s"}, When: types.WhenSucceeded})
		if s := esltest.Statuses(t, jobs, controlplane.UntilEnded, l.Tasks...)[0]; s.Phase != types.Cancelled || !strings.Contains(s.Reason, "only 2 can be there") {
			t.Errorf("%+v", s)
		}
		two := esltest.Submitted(t, jobs, []controlplane.Submission{esltest.Called("worker", "run", "1s"), esltest.Called("s", "run", "2s"), esltest.Called("s", "run", "1s", "exit", "1"), esltest.Called("s", "run", "3s")},
			admission.Barrier{Tasks: []string{"s"}, When: types.WhenSucceeded, Count: 2})
		if s := esltest.Statuses(t, jobs, controlplane.UntilEnded, two.Tasks...); s[0].Phase != types.Succeeded || s[0].Started < s[3].Ended {
			t.Errorf("%+v", s)
		}
		for want, p := range map[string]admission.Barrier{
			"name at least one": {}, `no task is called "x"`: {Tasks: []string{"x"}}, "count: 3": {Tasks: []string{"s"}, Count: 3},
			"none is left to wait": {Tasks: []string{"s", "worker"}}, `when: "soon"`: {Tasks: []string{"s"}, When: "soon"}, "count: -1": {Tasks: []string{"s"}, Count: -1},
		} {
			_, err := jobs.Submit(t.Context(), controlplane.Job{Tasks: []controlplane.Submission{esltest.Called("worker"), esltest.Called("s"), esltest.Called("s")}}, p)
			if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, not %q", p, err, want)
			}
		}
		esltest.NothingLeft(t, c)
	})
}

// TestSemaphore lets two jobs share three of something: never more are held.
func TestSemaphore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 4)
		if err := jobs.Declare(t.Context(), "db", admission.Semaphore{Limit: 3}, ""); err != nil {
			t.Fatal(err)
		}
		one := esltest.Submitted(t, jobs, esl.Copies(5, esltest.Called("x", "run", "10s")), esl.Use{Name: "db"})
		two := esltest.Submitted(t, jobs, esl.Copies(3, esltest.Called("y", "run", "10s")), esl.Use{Name: "db", Amount: 2})
		all := slices.Concat(one.Tasks, two.Tasks)
		time.Sleep(time.Second)
		if v, err := c.Await(t.Context(), func(*cluster.View) bool { return true }); err != nil || len(hollow.Running(v, "d")) != 3 {
			t.Errorf("%v run, %v", hollow.Running(v, "d"), err)
		}
		if text := esltest.TaskWhy(t, c, two.Tasks[2]); !strings.Contains(text, "0 of 3 is free") {
			t.Errorf("why: %q", text)
		}
		held := 0
		type edge struct{ at, by int64 }
		var edges []edge
		for i, s := range esltest.Statuses(t, jobs, controlplane.UntilEnded, all...) {
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
			"each task would hold 4": esl.Use{Name: "db", Amount: 4}, `there is no shared policy "nothing"`: esl.Use{Name: "nothing"}, "a semaphore is shared": admission.Semaphore{Limit: 1},
		} {
			if _, err := jobs.Submit(t.Context(), controlplane.Job{Tasks: []controlplane.Submission{esltest.Called("a")}}, p); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, not %q", p, err, want)
			}
		}
		time.Sleep(5 * time.Second) // the garbage collector runs once a second
		if err := jobs.Withdraw(t.Context(), "db", false); err != nil {
			t.Error(err)
		}
		esltest.NothingLeft(t, c)
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
	job, err := jobs.Submit(ctx, controlplane.Job{Name: "pipeline", Tasks: []controlplane.Submission{task("train"), task("fetch"), task("report")}},
		admission.After{Tasks: map[string][]string{"train": {"fetch"}, "report": {"train"}}})
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

// TestAfterTwoThatFailed ends the successors of two jobs, or a job and a task, which had all failed
// before Next was called.
func TestAfterTwoThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 2)
		one := esltest.Submitted(t, jobs, []controlplane.Submission{esltest.Called("x", "exit", "1"), esltest.Called("x", "run", "10s")})
		two := esltest.Submitted(t, jobs, []controlplane.Submission{esltest.Called("x", "exit", "1"), esltest.Called("x", "run", "10s")})
		esltest.Pass(2 * time.Second)
		never := esltest.Submitted(t, jobs, []controlplane.Submission{esltest.Called("y")}, admission.After{Jobs: []string{one.Job, two.Job}})
		esltest.Pass(20 * time.Second)
		s, err := jobs.Status(t.Context(), never.Tasks[0])
		if err != nil || s.Phase() != types.Cancelled || !strings.Contains(s.Status.Reason, "comes after") {
			t.Errorf("%+v, %v", s, err)
		}
		esltest.NothingLeft(t, c)
	})
}
